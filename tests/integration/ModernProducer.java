import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producers of a modern client by name, told a line at a time what to do; each line is answered by "ok" once it is done.
 *
 *     open NAME KEY=VALUE ..                                     with transactional.id: transactions are initialised
 *     begin | commit | abort | flush NAME
 *     send NAME TOPIC PARTITION FIRST COUNT BYTES TIME HEADERS   values "TOPIC/PARTITION #n", filled up to BYTES with dots;
 *                                                                TIME in ms, 0: now; HEADERS: how many each has
 *     configure TOPIC KEY VALUE
 */
public class ModernProducer {
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            run(arguments[0], line.split(" "));
            System.out.println("ok");
            System.out.flush();
        }
        for (KafkaProducer<String, String> producer : PRODUCERS.values()) producer.close(java.time.Duration.ZERO);
    }

    private static void run(String brokers, String[] words) throws Exception {
        KafkaProducer<String, String> producer = PRODUCERS.get(words[1]);
        switch (words[0]) {
            case "open" -> open(brokers, words);
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> { producer.flush(); producer.abortTransaction(); }
            case "flush" -> producer.flush();
            case "configure" -> configure(brokers, words);
            case "send" -> send(producer, words);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void open(String brokers, String[] words) {
        Properties options = new Properties();
        options.put("bootstrap.servers", brokers);
        options.put("key.serializer", StringSerializer.class.getName());
        options.put("value.serializer", StringSerializer.class.getName());
        options.put("linger.ms", "100");
        for (int n = 2; n < words.length; n++) options.put(words[n].split("=")[0], words[n].split("=")[1]);
        KafkaProducer<String, String> producer = new KafkaProducer<>(options);
        if (options.containsKey("transactional.id")) producer.initTransactions();
        PRODUCERS.put(words[1], producer);
    }

    private static void configure(String brokers, String[] words) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", brokers))) {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, words[1]);
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry(words[2], words[3]), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(topic, List.of(change))).all().get();
        }
    }

    private static void send(KafkaProducer<String, String> producer, String[] words) {
        String topic = words[2];
        int partition = Integer.parseInt(words[3]), first = Integer.parseInt(words[4]), count = Integer.parseInt(words[5]);
        int bytes = Integer.parseInt(words[6]), headers = Integer.parseInt(words[8]);
        long time = Long.parseLong(words[7]);
        for (int n = first; n < first + count; n++) {
            StringBuilder value = new StringBuilder(topic + "/" + partition + " #" + n);
            while (value.length() < bytes) value.append('.');
            ProducerRecord<String, String> sent = new ProducerRecord<>(
                topic, partition, time == 0 ? null : Long.valueOf(time + n), "k" + n, value.toString());
            for (int h = 0; h < headers; h++) sent.headers().add("h" + h, new byte[] {1});
            producer.send(sent);
        }
    }
}
