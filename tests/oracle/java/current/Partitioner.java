package oracle;

import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.internals.PartitionerHarness;
import org.apache.kafka.common.utils.Utils;

/** Utils.murmur2 and partitionForKey of a key, or a whole run of the built-in or the round-robin partitioner. */
public final class Partitioner implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        switch ((String) request.get("ask")) {
            case "builtIn":
                return PartitionerHarness.builtIn(request);
            case "roundRobin":
                return PartitionerHarness.roundRobin(request);
            default:
                return hash(request);
        }
    }

    private static Object hash(Map<String, Object> request) {
        byte[] key = Base64.getDecoder().decode((String) request.get("key"));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("hash", Utils.murmur2(key));
        answer.put("positive", Utils.toPositive(Utils.murmur2(key)));
        answer.put("partition", PartitionerHarness.partitionForKey(key, Json.integer(request.get("partitions"))));
        return answer;
    }
}
