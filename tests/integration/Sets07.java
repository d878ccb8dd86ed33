import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.zip.CRC32;
import kafka.javaapi.message.ByteBufferMessageSet;
import kafka.message.MessageAndOffset;

/** What Kafka 0.7's own message sets hold: `Sets07 FILE` prints a line for each set, "offset:size:crc32" of each message
 *  and "!" and the exception that ended it.  FILE holds sets with their int64 positions and int32 sizes in front. */
public class Sets07 {
    public static void main(String[] args) throws Exception {
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(args[0])))) {
            while (in.available() > 0) {
                long start = in.readLong();
                byte[] set = new byte[in.readInt()];
                in.readFully(set);
                StringBuilder line = new StringBuilder();
                try {
                    Iterator<MessageAndOffset> found = new ByteBufferMessageSet(ByteBuffer.wrap(set), start, 0).iterator();
                    while (found.hasNext()) {
                        MessageAndOffset each = found.next();
                        ByteBuffer payload = each.message().payload();
                        byte[] value = new byte[payload.remaining()];
                        payload.get(value);
                        CRC32 crc = new CRC32();
                        crc.update(value);
                        line.append(each.offset()).append(':').append(value.length).append(':').append(crc.getValue()).append(' ');
                    }
                } catch (Throwable failed) {
                    line.append('!').append(failed.getClass().getSimpleName());
                }
                System.out.println(line.toString().trim());
            }
        }
    }
}
