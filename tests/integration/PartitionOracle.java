import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Which partition the original's own classes choose.  A line in: CLASS TYPE KEY(base64) PARTITIONS; a number out, or !. */
public class PartitionOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            byte[] raw = Base64.getDecoder().decode(words[2]);
            out.append(partition(words[0], key(words[1], raw), Integer.parseInt(words[3]))).append('\n');
        }
        System.out.print(out);
    }

    static Object key(String type, byte[] raw) throws Exception {
        String text = new String(raw, "UTF-8");
        switch (type) {
            case "string": return text;
            case "int": return Integer.valueOf(text);
            case "long": return Long.valueOf(text);
            default: return raw;
        }
    }

    static String partition(String name, Object key, int partitions) throws Exception {
        if (name.equals("client"))
            return client((byte[]) key, partitions);
        if (name.equals("murmur2")) {
            Class<?> utils = Class.forName("org.apache.kafka.common.utils.Utils");
            int hash = (Integer) utils.getMethod("murmur2", byte[].class).invoke(null, (Object) key);
            return Integer.toString((hash & 0x7fffffff) % partitions);
        }
        Class<?> kind = Class.forName("kafka.producer." + name);
        Object made = null;
        for (Constructor<?> maker : kind.getConstructors())
            made = maker.getParameterCount() == 0 ? maker.newInstance() : maker.newInstance((Object) null);
        for (Method method : kind.getMethods())
            if (method.getName().equals("partition") && method.getReturnType() == int.class && !method.isBridge())
                return method.invoke(made, key, partitions).toString();
        return "!";
    }

    static final Map<Integer, Object> CLUSTERS = new HashMap<>();

    /** What the Java producer of 0.8.2 does with a record that has a key and names no partition. */
    static String client(byte[] key, int partitions) throws Exception {
        Object cluster = CLUSTERS.get(partitions);
        if (cluster == null)
            CLUSTERS.put(partitions, cluster = cluster(partitions));
        Class<?> records = Class.forName("org.apache.kafka.clients.producer.ProducerRecord");
        Object record = records.getConstructor(String.class, Object.class, Object.class).newInstance("t", key, key);
        Class<?> partitioner = Class.forName("org.apache.kafka.clients.producer.internals.Partitioner");
        Method partition = partitioner.getMethod("partition", records, cluster.getClass());
        return partition.invoke(partitioner.getConstructor().newInstance(), record, cluster).toString();
    }

    static Object cluster(int partitions) throws Exception {
        Class<?> node = Class.forName("org.apache.kafka.common.Node");
        Object leader = node.getConstructor(int.class, String.class, int.class).newInstance(0, "localhost", 9092);
        Object replicas = Array.newInstance(node, 0);
        Constructor<?> info = Class.forName("org.apache.kafka.common.PartitionInfo")
            .getConstructor(String.class, int.class, node, replicas.getClass(), replicas.getClass());
        List<Object> infos = new ArrayList<>();
        for (int number = 0; number < partitions; number++)
            infos.add(info.newInstance("t", number, leader, replicas, replicas));
        return Class.forName("org.apache.kafka.common.Cluster")
            .getConstructor(Collection.class, Collection.class).newInstance(List.of(leader), infos);
    }
}
