package oracle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
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
            case "bench":
                return bench(request);
            default:
                return hash(request);
        }
    }

    /** Nanoseconds of each round of Utils.murmur2 over keys of 16 bytes; the sum shows that the keys were the same. */
    private static Object bench(Map<String, Object> request) {
        byte[][] keys = new byte[Json.integer(request.get("keys"))][];
        for (int i = 0; i < keys.length; i++) {
            long word = (i + 1) * 0x9E3779B97F4A7C15L;
            keys[i] = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN).putLong(word).putLong(word ^ word >>> 31).array();
        }
        int[] hashes = new int[keys.length];
        List<Long> rounds = new ArrayList<>();
        for (int round = 0; round < Json.integer(request.get("rounds")); round++) {
            long start = System.nanoTime();
            for (int i = 0; i < keys.length; i++) {
                hashes[i] = Utils.murmur2(keys[i]);
            }
            rounds.add(System.nanoTime() - start);
        }
        long sum = 0;
        for (int hash : hashes) {
            sum += hash;
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("nanoseconds", rounds);
        answer.put("sum", sum);
        return answer;
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
