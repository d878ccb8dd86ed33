import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group with the Java consumer: a line for each message, committed before the next poll.
 *
 *     java -cp 'JARS/*' JavaMember.java BROKERS GROUP TOPIC KEY=VALUE ..
 *
 *     MONOTONIC owned|released PARTITION ..   what it was assigned, and what was revoked
 *     MONOTONIC PARTITION OFFSET VALUE    as tests/integration/groupmember.py prints them
 *
 * SIGTERM ends it in order.
 */
public class JavaMember {
    public static void main(String[] arguments) throws Exception {
        Properties options = new Properties();
        options.put("bootstrap.servers", arguments[0]);
        options.put("group.id", arguments[1]);
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        options.put("session.timeout.ms", "6000");
        options.put("heartbeat.interval.ms", "500");
        options.put("metadata.max.age.ms", "1000");
        options.put("key.deserializer", StringDeserializer.class.getName());
        options.put("value.deserializer", StringDeserializer.class.getName());
        for (int n = 3; n < arguments.length; n++) options.put(arguments[n].split("=")[0], arguments[n].split("=")[1]);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(options);
        Thread reader = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try { reader.join(8000); } catch (InterruptedException e) { }
        }));
        consumer.subscribe(List.of(arguments[2]), new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) { changed("released", partitions); }
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) { changed("owned", partitions); }
        });
        try {
            while (true) {
                ConsumerRecords<String, String> records = poll(consumer);
                for (ConsumerRecord<String, String> record : records)
                    say(String.format("%.3f %d %d %s", System.nanoTime() / 1e9, record.partition(), record.offset(), record.value()));
                if (!records.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (org.apache.kafka.clients.consumer.CommitFailedException e) {
                        say("commit failed");
                    }
                }
            }
        } catch (org.apache.kafka.common.errors.WakeupException e) {
            // the end
        } finally {
            changed("released", consumer.assignment());  // before 0.11 close() calls no listener
            consumer.close();
        }
    }

    /** poll(Duration) since 2.0, poll(long) before: looked up, for this source runs with the clients of both. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            try {
                return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(100));
            } catch (NoSuchMethodException before) {
                return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 100L);
            }
        } catch (java.lang.reflect.InvocationTargetException e) {
            throw (Exception) e.getCause();
        }
    }

    private static void changed(String how, Collection<TopicPartition> partitions) {
        StringBuilder line = new StringBuilder(String.format("%.3f %s", System.nanoTime() / 1e9, how));
        for (TopicPartition tp : partitions) line.append(" ").append(tp.partition());
        say(line.toString());
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
