import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/** The clients of 0.8 (its producer, its SimpleConsumer), told as NewClients is, with the same rows; one broker.
 *
 *     send FILE KEY=VALUE ..     read FILE TOPIC ..     ends TOPIC ..     await MARK MS COUNT TOPIC ..
 */
public class OldClients {
    private static final Map<String, Producer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    private static final int FETCH_BYTES = 4_000_000;
    private static String brokers;

    public static void main(String[] arguments) throws Exception {
        brokers = arguments[0];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok " + run(line.split(" "));
            } catch (Exception e) {
                e.printStackTrace();
                answer = "error " + e;
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
        System.exit(0);
    }

    private static String run(String[] words) throws Exception {
        List<String> rest = Arrays.asList(words).subList(1, words.length);
        switch (words[0]) {
            case "send": return send(words[1], producer(rest.subList(1, rest.size())));
            case "read": return read(words[1], rest.subList(1, rest.size()));
            case "ends": return ends(rest);
            case "await": return await(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]), rest.subList(3, rest.size()));
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private static Producer<byte[], byte[]> producer(List<String> options) {
        return PRODUCERS.computeIfAbsent(String.join(" ", options), name -> {
            Properties properties = new Properties();
            properties.put("metadata.broker.list", brokers);
            properties.put("request.required.acks", "-1");
            properties.put("serializer.class", "kafka.serializer.DefaultEncoder");
            properties.put("key.serializer.class", "kafka.serializer.DefaultEncoder");
            for (String option : options) properties.put(option.split("=")[0], option.split("=")[1]);
            return new Producer<byte[], byte[]>(new ProducerConfig(properties));
        });
    }

    /** In requests of 40 messages; each is one wrapper a partition where there is a codec. */
    private static String send(String file, Producer<byte[], byte[]> producer) throws Exception {
        List<KeyedMessage<byte[], byte[]>> messages = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(file))) {
            String[] row = line.split("\t");
            messages.add(new KeyedMessage<>(row[0], bytes(row[5]), Integer.valueOf(row[1]), bytes(row[6])));
        }
        for (int n = 0; n < messages.size(); n += 40)
            producer.send(messages.subList(n, Math.min(n + 40, messages.size())));
        return String.valueOf(messages.size());
    }

    private static SimpleConsumer consumer() {
        String[] address = brokers.split(",")[0].split(":");
        return new SimpleConsumer(address[0], Integer.parseInt(address[1]), 30_000, 1 << 20, "matrix");
    }

    private static Map<TopicAndPartition, Long> endsOf(SimpleConsumer consumer, List<String> topics) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = new LinkedHashMap<>();
        for (TopicMetadata topic : consumer.send(new TopicMetadataRequest(topics)).topicsMetadata())
            for (PartitionMetadata partition : topic.partitionsMetadata())
                asked.put(new TopicAndPartition(topic.topic(), partition.partitionId()),
                    new PartitionOffsetRequestInfo(-1L, 1));
        Map<TopicAndPartition, Long> ends = new HashMap<>();
        if (asked.isEmpty()) return ends;
        var answer = consumer.getOffsetsBefore(new OffsetRequest(asked, (short) 0, "matrix"));
        for (TopicAndPartition tp : asked.keySet()) {
            short error = answer.errorCode(tp.topic(), tp.partition());
            if (error != 0) throw new IllegalStateException(tp + ": error " + error);
            ends.put(tp, answer.offsets(tp.topic(), tp.partition())[0]);
        }
        return ends;
    }

    private interface Each {
        void message(TopicAndPartition tp, MessageAndOffset message);
    }

    /** Everything of a partition from an offset to an end; the next offset. */
    private static long partition(SimpleConsumer consumer, TopicAndPartition tp, long offset, long end, Each each) {
        while (offset < end) {
            FetchResponse answer = consumer.fetch(new FetchRequestBuilder().clientId("matrix")
                .addFetch(tp.topic(), tp.partition(), offset, FETCH_BYTES).maxWait(100).minBytes(1).build());
            if (answer.hasError()) throw new IllegalStateException(tp + ": error " + answer.errorCode(tp.topic(), tp.partition()));
            for (MessageAndOffset message : answer.messageSet(tp.topic(), tp.partition())) {
                if (message.offset() < offset) continue;
                each.message(tp, message);
                offset = message.nextOffset();
            }
        }
        return offset;
    }

    private static String read(String file, List<String> topics) throws Exception {
        int[] count = {0};
        SimpleConsumer consumer = consumer();
        try (PrintWriter out = new PrintWriter(file, "UTF-8")) {
            for (Map.Entry<TopicAndPartition, Long> end : endsOf(consumer, topics).entrySet())
                partition(consumer, end.getKey(), 0, end.getValue(), (tp, message) -> {
                    out.println(String.join("\t", tp.topic(), "" + tp.partition(), "" + message.offset(), "-", "-",
                        hex(bytes(message.message().key())), hex(bytes(message.message().payload())), "-"));
                    count[0]++;
                });
        } finally {
            consumer.close();
        }
        return String.valueOf(count[0]);
    }

    private static String ends(List<String> topics) {
        SimpleConsumer consumer = consumer();
        try {
            List<String> told = new ArrayList<>();
            endsOf(consumer, topics).forEach((tp, end) -> told.add(tp.topic() + "/" + tp.partition() + "=" + end));
            return String.join(" ", told);
        } finally {
            consumer.close();
        }
    }

    private static String await(String mark, long ms, int count, List<String> topics) throws Exception {
        SimpleConsumer consumer = consumer();
        Map<String, Long> offsets = new HashMap<>();
        Map<String, String> last = new TreeMap<>();
        long deadline = System.currentTimeMillis() + ms;
        try {
            while (true) {
                Map<TopicAndPartition, Long> ends = endsOf(consumer, topics);
                ends.keySet().removeIf(tp -> tp.partition() >= count);
                for (Map.Entry<TopicAndPartition, Long> end : ends.entrySet()) {
                    String name = end.getKey().topic() + "/" + end.getKey().partition();
                    last.putIfAbsent(name, "");
                    offsets.put(name, partition(consumer, end.getKey(), offsets.getOrDefault(name, 0L), end.getValue(),
                        (tp, message) -> {
                            byte[] value = bytes(message.message().payload());
                            last.put(name, value == null ? "" : new String(value, StandardCharsets.UTF_8));
                        }));
                }
                if (last.size() == count * topics.size() && last.values().stream().allMatch(value -> value.startsWith(mark))) return "" + last.size();
                if (System.currentTimeMillis() > deadline) {
                    last.values().removeIf(value -> value.startsWith(mark));
                    throw new IllegalStateException("no " + mark + " at the end of " + last.keySet() + " after " + ms + " ms");
                }
                Thread.sleep(50);
            }
        } finally {
            consumer.close();
        }
    }

    private static byte[] bytes(ByteBuffer of) {
        if (of == null) return null;
        byte[] bytes = new byte[of.remaining()];
        of.duplicate().get(bytes);
        return bytes;
    }

    private static String hex(byte[] bytes) {
        if (bytes == null) return "-";
        StringBuilder text = new StringBuilder(bytes.length * 2);
        for (byte each : bytes) text.append(Character.forDigit(each >> 4 & 15, 16)).append(Character.forDigit(each & 15, 16));
        return text.toString();
    }

    private static byte[] bytes(String hex) {
        if (hex.equals("-")) return null;
        byte[] bytes = new byte[hex.length() / 2];
        for (int n = 0; n < bytes.length; n++) bytes[n] = (byte) Integer.parseInt(hex.substring(2 * n, 2 * n + 2), 16);
        return bytes;
    }
}
