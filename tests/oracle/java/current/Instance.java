package oracle;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/** The user data of Kafka Streams, of any version: written, and read or refused. */
public final class Instance implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        boolean said = request.get("what").equals("subscription");
        if (request.containsKey("data")) {
            ByteBuffer data = ByteBuffer.wrap(Base64.getDecoder().decode((String) request.get("data")));
            return said ? read(SubscriptionInfo.decode(data)) : read(AssignmentInfo.decode(data));
        }
        ByteBuffer data = said ? subscription(request) : assignment(request);
        data.rewind();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return Map.of("data", Base64.getEncoder().encodeToString(bytes));
    }

    private static ByteBuffer subscription(Map<String, Object> request) {
        Map<TaskId, Long> sums = new LinkedHashMap<>();
        tasks(request.get("tasks")).forEach(task -> sums.put(task, sums.size() % 2 == 0 ? -2L : 7L));
        int version = Json.integer(request.get("version"));
        return new SubscriptionInfo(version, version, new ProcessId(UUID.fromString((String) request.get("processId"))),
            (String) request.get("endpoint"), sums, (byte) 3, 0, Map.of("k", "v")).encode();
    }

    private static ByteBuffer assignment(Map<String, Object> request) {
        Map<TaskId, Set<TopicPartition>> standby = new LinkedHashMap<>();
        tasks(request.get("tasks")).forEach(task -> standby.put(task, partitions(task)));
        Map<HostInfo, Set<TopicPartition>> hosts = new LinkedHashMap<>();
        List<TaskId> active = tasks(request.get("active"));
        active.forEach(task -> hosts.put(new HostInfo("h" + task.partition(), 7), partitions(task)));
        int version = Json.integer(request.get("version"));
        AssignmentInfo info = new AssignmentInfo(version, version, active, standby, hosts, hosts, 0);
        info.setNextRebalanceTime((Long) request.get("next"));
        return info.encode();
    }

    private static Map<String, Object> read(SubscriptionInfo info) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("version", info.version());
        if (info.version() <= 11) {
            answer.put("processId", info.processId().toString());
            answer.put("endpoint", info.userEndPoint());
        }
        return answer;
    }

    private static Map<String, Object> read(AssignmentInfo info) {
        List<Object> standby = new ArrayList<>();
        info.standbyTasks().keySet().forEach(task -> standby.add(List.of(
            task.topologyName() == null ? "" : task.topologyName(), task.subtopology(), task.partition())));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("standby", standby);
        answer.put("next", info.nextRebalanceMs());
        return answer;
    }

    private static Set<TopicPartition> partitions(TaskId task) {
        Set<TopicPartition> found = new LinkedHashSet<>();
        found.add(new TopicPartition("tä" + task.subtopology(), task.partition()));
        return found;
    }

    private static List<TaskId> tasks(Object triples) {
        List<TaskId> found = new ArrayList<>();
        for (Object triple : Json.array(triples)) {
            List<Object> one = Json.array(triple);
            String name = (String) one.get(0);
            found.add(new TaskId(Json.integer(one.get(1)), Json.integer(one.get(2)), name.isEmpty() ? null : name));
        }
        return found;
    }
}
