import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own clients of 0.9 and later, told a line at a time what to do; one line answers: "ok ..." or "error ...".
 *
 *     send FILE KEY=VALUE ..             the rows of a file, by a producer with these options; all acknowledged
 *     begin|commit|abort KEY=VALUE ..    a transaction of the producer with these options
 *     read FILE TOPIC ..                 everything up to the ends that the partitions have now (read_committed), as rows
 *     ends TOPIC ..                      TOPIC/PARTITION=END ..
 *     await MARK MS COUNT TOPIC ..       until the last message of partitions 0 .. COUNT - 1 has a value that begins with MARK
 *
 * A row: topic, partition, offset, type of timestamp, timestamp, key, value, headers; tabs between them, bytes as hex,
 * "-" for null; headers as NAME=VALUE,NAME=VALUE.  What a release does not have is looked up by reflection.
 */
public class NewClients {
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
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
            case "begin": call(producer(rest), "beginTransaction"); return "";
            case "commit": call(producer(rest), "commitTransaction"); return "";
            case "abort": call(producer(rest), "abortTransaction"); return "";
            case "read": return read(words[1], rest.subList(1, rest.size()));
            case "ends": return ends(rest);
            case "await": return await(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]), rest.subList(3, rest.size()));
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    // ---- writing

    private static KafkaProducer<byte[], byte[]> producer(List<String> options) throws Exception {
        String name = String.join(" ", options);
        KafkaProducer<byte[], byte[]> known = PRODUCERS.get(name);
        if (known != null) return known;
        Properties properties = new Properties();
        properties.put("bootstrap.servers", brokers);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("acks", "all");
        properties.put("linger.ms", "20");
        // With more, a partition that is not led yet may take a second batch before the first, and then neither for ever.
        properties.put("max.in.flight.requests.per.connection", "1");
        for (String option : options) properties.put(option.split("=")[0], option.split("=")[1]);
        KafkaProducer<byte[], byte[]> made = new KafkaProducer<>(properties);
        if (properties.containsKey("transactional.id")) call(made, "initTransactions");
        PRODUCERS.put(name, made);
        return made;
    }

    private static String send(String file, KafkaProducer<byte[], byte[]> producer) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(file))) sent.add(producer.send(record(line.split("\t"))));
        producer.flush();
        for (Future<?> each : sent) each.get();
        return String.valueOf(sent.size());
    }

    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(String[] row) throws Exception {
        Integer partition = Integer.valueOf(row[1]);
        byte[] key = bytes(row[5]), value = bytes(row[6]);
        if (row[4].equals("-") && row[7].equals("-")) return new ProducerRecord<>(row[0], partition, key, value);
        Constructor<?> timed = Arrays.stream(ProducerRecord.class.getConstructors())
            .filter(each -> each.getParameterCount() == 5 && each.getParameterTypes()[2] == Long.class).findFirst().get();
        Long time = row[4].equals("-") ? null : Long.valueOf(row[4]);
        Object made = timed.newInstance(row[0], partition, time, key, value);
        if (!row[7].equals("-")) {
            Object headers = method(ProducerRecord.class, "headers", 0).invoke(made);
            Method add = Arrays.stream(Class.forName("org.apache.kafka.common.header.Headers").getMethods())
                .filter(each -> each.getName().equals("add") && each.getParameterCount() == 2).findFirst().get();
            for (String header : row[7].split(",")) {
                int equals = header.indexOf('=');
                String name = new String(bytes(header.substring(0, equals)), StandardCharsets.UTF_8);
                add.invoke(headers, name, (Object) bytes(header.substring(equals + 1)));
            }
        }
        return (ProducerRecord<byte[], byte[]>) made;
    }

    // ---- reading

    private static KafkaConsumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", brokers);
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("max.partition.fetch.bytes", "4000000");
        return new KafkaConsumer<>(properties);
    }

    private static List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> consumer, List<String> topics) {
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : topics) {
            List<?> found = consumer.partitionsFor(topic);
            for (int n = 0; found != null && n < found.size(); n++) all.add(new TopicPartition(topic, n));
        }
        return all;
    }

    private static Map<TopicPartition, Long> endsOf(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> all)
            throws Exception {
        Method end = method(KafkaConsumer.class, "seekToEnd", 1);
        end.invoke(consumer, end.isVarArgs() ? (Object) all.toArray(new TopicPartition[0]) : all);
        Map<TopicPartition, Long> ends = new HashMap<>();
        for (TopicPartition tp : all) ends.put(tp, consumer.position(tp));
        return ends;
    }

    private static String read(String file, List<String> topics) throws Exception {
        int count = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(); PrintWriter out = new PrintWriter(file, "UTF-8")) {
            List<TopicPartition> all = partitions(consumer, topics);
            Set<String> held = new HashSet<>();
            for (TopicPartition tp : all) held.add(tp.topic());
            if (!held.containsAll(topics)) throw new IllegalStateException("of " + topics + " there are only " + held);
            consumer.assign(all);
            Map<TopicPartition, Long> ends = endsOf(consumer, all);
            Map<TopicPartition, Long> unread = new HashMap<>(ends);
            unread.values().removeIf(end -> end == 0);
            for (TopicPartition tp : all) consumer.seek(tp, 0L);
            long deadline = System.currentTimeMillis() + 60_000;
            while (!ends.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    out.println(row(record));
                    unread.remove(new TopicPartition(record.topic(), record.partition()));
                    count++;
                }
                ends.entrySet().removeIf(each -> consumer.position(each.getKey()) >= each.getValue());
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException("not read to " + ends);
            }
            if (!unread.isEmpty()) throw new IllegalStateException("nothing read of " + unread);
            if (out.checkError()) throw new IllegalStateException("cannot write " + file);
        }
        return String.valueOf(count);
    }

    private static String row(ConsumerRecord<byte[], byte[]> record) throws Exception {
        Method timestamp = method(ConsumerRecord.class, "timestamp", 0);
        Method headers = method(ConsumerRecord.class, "headers", 0);
        String time = timestamp == null ? "-" : String.valueOf(timestamp.invoke(record));
        String type = timestamp == null ? "-" : String.valueOf(method(ConsumerRecord.class, "timestampType", 0).invoke(record));
        StringBuilder told = new StringBuilder();
        if (headers != null) {
            for (Object header : (Iterable<?>) headers.invoke(record)) {
                Class<?> of = Class.forName("org.apache.kafka.common.header.Header");
                byte[] name = ((String) of.getMethod("key").invoke(header)).getBytes(StandardCharsets.UTF_8);
                told.append(told.length() == 0 ? "" : ",").append(hex(name)).append('=');
                told.append(hex((byte[]) of.getMethod("value").invoke(header)));
            }
        }
        return String.join("\t", record.topic(), "" + record.partition(), "" + record.offset(), type, time,
            hex(record.key()), hex(record.value()), told.length() == 0 ? "-" : told.toString());
    }

    private static String ends(List<String> topics) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> all = partitions(consumer, topics);
            consumer.assign(all);
            List<String> told = new ArrayList<>();
            for (Map.Entry<TopicPartition, Long> end : endsOf(consumer, all).entrySet())
                told.add(end.getKey().topic() + "/" + end.getKey().partition() + "=" + end.getValue());
            return String.join(" ", told);
        }
    }

    private static String await(String mark, long ms, int count, List<String> topics) throws Exception {
        Map<TopicPartition, String> last = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> all = new ArrayList<>();
            for (String topic : topics) for (int n = 0; n < count; n++) all.add(new TopicPartition(topic, n));
            consumer.assign(all);
            for (TopicPartition tp : all) consumer.seek(tp, 0L);
            long deadline = System.currentTimeMillis() + ms;
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    byte[] value = record.value();
                    String text = value == null ? "" : new String(value, 0, Math.min(value.length, 40), StandardCharsets.UTF_8);
                    last.put(new TopicPartition(record.topic(), record.partition()), text);
                }
                List<TopicPartition> without = new ArrayList<>(all);
                without.removeIf(tp -> last.getOrDefault(tp, "").startsWith(mark));
                if (without.isEmpty()) return "" + all.size();
                if (System.currentTimeMillis() > deadline)
                    throw new IllegalStateException("no " + mark + " at the end of " + without + " after " + ms + " ms");
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        for (Method each : KafkaConsumer.class.getMethods())
            if (each.getName().equals("poll") && each.getParameterTypes()[0] == Duration.class)
                return (ConsumerRecords<byte[], byte[]>) each.invoke(consumer, Duration.ofMillis(100));
        return (ConsumerRecords<byte[], byte[]>) method(KafkaConsumer.class, "poll", 1).invoke(consumer, 100L);
    }

    // ---- what they share

    private static void call(KafkaProducer<byte[], byte[]> producer, String name) throws Exception {
        method(KafkaProducer.class, name, 0).invoke(producer);
    }

    private static Method method(Class<?> of, String name, int parameters) {
        return Arrays.stream(of.getMethods())
            .filter(each -> each.getName().equals(name) && each.getParameterCount() == parameters).findFirst().orElse(null);
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
