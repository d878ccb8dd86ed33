import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.regex.*;

/** Answers what the JVM does: a request a line, words in base64; a reply a line, "!" where Java refuses. */
public class JavaOracle {
    static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    static String word(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    /** kafka.consumer.TopicFilter of 0.8.2.2. */
    static String filterText(String raw) {
        return raw.trim().replace(',', '|').replace(" ", "").replaceAll("^[\"']+", "").replaceAll("[\"']+$", "");
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "match": {
                Pattern pattern = Pattern.compile(text(words[1]));
                StringBuilder out = new StringBuilder("=");
                for (int i = 2; i < words.length; i++) out.append(pattern.matcher(text(words[i])).matches() ? '1' : '0');
                return out.toString();
            }
            case "filter":
                return "=" + word(filterText(text(words[1])));
            case "string":
                return "=" + text(words[1]).hashCode();
            case "bytes":
                return "=" + Arrays.hashCode(words.length > 1 ? Base64.getDecoder().decode(words[1]) : new byte[0]);
            default: {
                Properties properties = new Properties();
                properties.load(new java.io.StringReader(text(words[1])));
                StringBuilder out = new StringBuilder("=");
                for (String key : new TreeSet<>(properties.stringPropertyNames()))
                    out.append(word(key)).append(':').append(word(properties.getProperty(key))).append(' ');
                return out.toString();
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Scanner in = new Scanner(System.in, "US-ASCII").useDelimiter("\n");
        while (in.hasNext()) {
            String[] words = in.next().split(" ", -1);
            String reply;
            try {
                reply = answer(words);
            } catch (IllegalArgumentException e) {
                reply = "!";
            }
            System.out.println(reply);
        }
    }
}
