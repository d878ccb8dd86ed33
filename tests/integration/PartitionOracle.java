import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.Base64;

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
}
