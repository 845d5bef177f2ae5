package oracle;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/** What Java itself says of hash codes, orders and HashMap iteration: the oracle of assignors/java.py. */
public final class Probe implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        List<Object> keys = new ArrayList<>();
        for (Object item : Json.array(request.get("keys"))) {
            keys.add(key((String) request.get("kind"), item));
        }
        Map<Object, Integer> map = map(request);
        for (int i = 0; i < keys.size(); i++) {
            map.putIfAbsent(keys.get(i), i);
        }
        if (request.containsKey("removed")) {
            for (Object index : Json.array(request.get("removed"))) {
                map.remove(keys.get(Json.integer(index)));
            }
        }
        List<Object> hashes = new ArrayList<>();
        keys.forEach(key -> hashes.add(key.hashCode()));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("hashes", hashes);
        answer.put("order", new ArrayList<>(map.values()));
        if (keys.get(0) instanceof Comparable) {
            List<Object> sorted = new ArrayList<>(keys);
            sorted.sort(null);
            List<Object> names = new ArrayList<>();
            sorted.forEach(key -> names.add(key.toString()));
            answer.put("sorted", names);
        }
        return answer;
    }

    private static Map<Object, Integer> map(Map<String, Object> request) {
        if (request.containsKey("timeline")) {
            return new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        }
        return request.containsKey("capacity")
            ? new HashMap<>(Json.integer(request.get("capacity"))) : new HashMap<>();
    }

    private static Object key(String kind, Object item) {
        switch (kind) {
            case "string":
                return item;
            case "uuid":
                return Uuid.fromString((String) item);
            case "integer":
                return Json.integer(item);
            default:
                List<Object> pair = Json.array(item);
                return new TopicPartition((String) pair.get(0), Json.integer(pair.get(1)));
        }
    }
}
