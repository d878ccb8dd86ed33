import java.io.DataInputStream;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import kafka.javaapi.message.ByteBufferMessageSet;
import kafka.message.MessageAndOffset;

/** Kafka 0.7's own message sets read in memory: `Decode07 FILE ROUNDS` prints messages, bytes, last offset, best seconds.
 *  FILE holds sets with their int32 sizes in front.  As a consumer does it: each message's checksum, offset, payload. */
public class Decode07 {
    public static void main(String[] args) throws Exception {
        List<byte[]> sets = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(new FileInputStream(args[0]))) {
            while (in.available() > 0) {
                byte[] set = new byte[in.readInt()];
                in.readFully(set);
                sets.add(set);
            }
        }
        ThreadMXBean cpu = ManagementFactory.getThreadMXBean();
        double best = Double.MAX_VALUE;
        long messages = 0, bytes = 0, reached = 0;
        for (int round = 0; round < Integer.parseInt(args[1]); round++) {
            messages = bytes = reached = 0;
            long began = cpu.getCurrentThreadCpuTime();
            for (byte[] set : sets) {
                for (MessageAndOffset found : new ByteBufferMessageSet(ByteBuffer.wrap(set), reached, 0)) {
                    ByteBuffer payload = found.message().payload();
                    byte[] value = new byte[payload.remaining()];
                    payload.get(value);
                    messages++;
                    bytes += value.length;
                    if (found.offset() < reached) throw new IllegalStateException("offset " + found.offset());
                }
                reached += set.length;
            }
            best = Math.min(best, (cpu.getCurrentThreadCpuTime() - began) / 1e9);
        }
        System.out.println(messages + " " + bytes + " " + reached + " " + best);
    }
}
