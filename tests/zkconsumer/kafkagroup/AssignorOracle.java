import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;

/** Prints groups and how the Java consumer's assignors divide them, a JSON object a line: java_assignors.jsonl.
 *
 *     java -cp 'JARS/*' AssignorOracle.java > java_assignors.jsonl      the same with the clients of 2.8.2 and 3.9.1
 */
public class AssignorOracle {
    public static void main(String[] arguments) {
        Random random = new Random(17);
        String[] topics = {"a", "B", "b", "orders", "orders-2", "\u00e9t\u00e9", "\uff5e", "\ud83d\ude00"};
        String[] names = {"c-1", "c-10", "c-2", "C-2", "consumer-1-ab", "\u00e9", "\uff5e", "\ud83d\ude00", "z"};
        for (int n = 0; n < 120; n++) {
            Map<String, Integer> counts = new HashMap<>();
            for (String topic : topics) if (random.nextInt(3) > 0) counts.put(topic, 1 + random.nextInt(7));
            Map<String, Subscription> members = new HashMap<>();
            Map<String, String> instances = new HashMap<>();
            int wanted = 1 + random.nextInt(5);
            boolean alike = random.nextBoolean();
            List<String> all = pick(random, topics);
            while (members.size() < wanted) {
                String name = names[random.nextInt(names.length)];
                if (members.containsKey(name)) continue;
                Subscription subscription = new Subscription(alike ? all : pick(random, topics));
                if (n % 4 == 3 && random.nextBoolean()) {
                    instances.put(name, names[random.nextInt(names.length)] + members.size());
                    subscription.setGroupInstanceId(Optional.of(instances.get(name)));
                }
                members.put(name, subscription);
            }
            StringBuilder out = new StringBuilder("{\"partitions\": " + json(new TreeMap<>(counts)) + ", \"members\": {");
            String comma = "";
            for (String name : new TreeSet<>(members.keySet())) {
                out.append(comma).append(quoted(name)).append(": ").append(json(new TreeSet<>(members.get(name).topics())));
                comma = ", ";
            }
            out.append("}, \"instances\": {");
            comma = "";
            for (Map.Entry<String, String> each : new TreeMap<>(instances).entrySet()) {
                out.append(comma).append(quoted(each.getKey())).append(": ").append(quoted(each.getValue()));
                comma = ", ";
            }
            out.append("}, \"range\": ").append(assigned(new RangeAssignor(), counts, members));
            out.append(", \"roundrobin\": ").append(assigned(new RoundRobinAssignor(), counts, members)).append("}");
            System.out.println(out);
        }
    }

    private static List<String> pick(Random random, String[] topics) {
        List<String> picked = new ArrayList<>();
        for (String topic : topics) if (random.nextBoolean()) picked.add(topic);
        if (picked.isEmpty()) picked.add(topics[random.nextInt(topics.length)]);
        return picked;
    }

    private static String assigned(AbstractPartitionAssignor by, Map<String, Integer> counts, Map<String, Subscription> members) {
        StringBuilder out = new StringBuilder("{");
        String comma = "";
        for (Map.Entry<String, List<TopicPartition>> each : new TreeMap<>(by.assign(counts, members)).entrySet()) {
            TreeSet<String> partitions = new TreeSet<>();
            for (TopicPartition tp : each.getValue()) partitions.add(tp.topic() + "/" + tp.partition());
            out.append(comma).append(quoted(each.getKey())).append(": ").append(json(partitions));
            comma = ", ";
        }
        return out.append("}").toString();
    }

    private static String json(Object value) {
        if (value instanceof Integer) return value.toString();
        if (value instanceof String) return quoted((String) value);
        StringBuilder out = new StringBuilder();
        if (value instanceof Map) {
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet())
                out.append(out.length() == 0 ? "" : ", ").append(json(each.getKey())).append(": ").append(json(each.getValue()));
            return "{" + out + "}";
        }
        for (Object each : (Iterable<?>) value) out.append(out.length() == 0 ? "" : ", ").append(json(each));
        return "[" + out + "]";
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) out.append(c < 127 ? String.valueOf(c) : String.format("\\u%04x", (int) c));
        return out.append("\"").toString();
    }
}
