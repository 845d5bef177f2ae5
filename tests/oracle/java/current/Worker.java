package oracle;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocolCompatibility;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** What a Connect worker reads of a subscription or an assignment under the protocol of this name. */
public final class Worker implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        ByteBuffer data = ByteBuffer.wrap(Base64.getDecoder().decode((String) request.get("data")));
        boolean eager = ConnectProtocolCompatibility.fromProtocol((String) request.get("protocol"))
            == ConnectProtocolCompatibility.EAGER;
        Map<String, Object> answer = new LinkedHashMap<>();
        if (request.get("what").equals("subscription")) {
            if (eager) {
                answer.put("url", ConnectProtocol.deserializeMetadata(data).url());
                answer.put("owned", new ArrayList<>());
                return answer;
            }
            ExtendedWorkerState state = IncrementalCooperativeConnectProtocol.deserializeMetadata(data);
            ExtendedAssignment allocation = state.assignment();
            answer.put("url", state.url());
            answer.put("owned", allocation == null
                ? new ArrayList<>() : pairs(allocation.connectors(), allocation.tasks()));
            return answer;
        }
        if (eager) {
            ConnectProtocol.Assignment given = ConnectProtocol.deserializeAssignment(data);
            answer.put("assigned", pairs(given.connectors(), given.tasks()));
            answer.put("revoked", new ArrayList<>());
            answer.put("delay", 0);
            return answer;
        }
        ExtendedAssignment given = IncrementalCooperativeConnectProtocol.deserializeAssignment(data);
        answer.put("assigned", pairs(given.connectors(), given.tasks()));
        answer.put("revoked", pairs(given.revokedConnectors(), given.revokedTasks()));
        answer.put("delay", given.delay());
        return answer;
    }

    private static List<Object> pairs(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        List<Object> found = new ArrayList<>();
        connectors.forEach(name -> found.add(List.of(name, -1)));
        tasks.forEach(task -> found.add(List.of(task.connector(), task.task())));
        return found;
    }
}
