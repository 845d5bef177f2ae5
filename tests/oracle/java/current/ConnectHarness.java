package org.apache.kafka.connect.runtime.distributed;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import oracle.Json;
import org.apache.kafka.clients.consumer.internals.AbstractCoordinator;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Drives {@code performAssignment} of Connect's assignors with the bytes that workers send, and reads the bytes
 * they get. The WorkerCoordinator is a real one that was never constructed: the assignors read four fields of it.
 */
public final class ConnectHarness {
    private static final sun.misc.Unsafe UNSAFE;

    static {
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            UNSAFE = (sun.misc.Unsafe) field.get(null);
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    /** {@code workers} (ids in JoinGroup order), {@code configured}: what every worker is to run. */
    public static Object eager(Map<String, Object> request) throws Exception {
        WorkerCoordinator coordinator = coordinator(Json.object(request.get("configured")), -1, 0);
        List<JoinGroupResponseMember> members = new ArrayList<>();
        for (String worker : Json.strings(request.get("workers"))) {
            ByteBuffer bytes = ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState("http://" + worker, 1));
            members.add(new JoinGroupResponseMember().setMemberId(worker).setMetadata(array(bytes)));
        }
        Map<String, ByteBuffer> answers = new EagerAssignor(new LogContext()).performAssignment(
            members.get(0).memberId(), ConnectProtocolCompatibility.EAGER, members, coordinator);
        Map<String, Object> answer = new LinkedHashMap<>();
        for (Map.Entry<String, ByteBuffer> entry : answers.entrySet()) {
            ConnectProtocol.Assignment assignment = ConnectProtocol.deserializeAssignment(entry.getValue());
            answer.put(entry.getKey(), work(assignment.connectors(), assignment.tasks()));
        }
        return answer;
    }

    /** The rounds of one leader: each {@code now}, {@code generation}, {@code completed}, {@code workers}, {@code configured}. */
    public static Object incremental(Map<String, Object> request) throws Exception {
        long[] now = {0};
        Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class}, (self, method, args) -> {
            if (method.getName().equals("milliseconds")) {
                return now[0];
            }
            throw new UnsupportedOperationException(method.getName());
        });
        IncrementalCooperativeAssignor assignor = new IncrementalCooperativeAssignor(
            new LogContext(), time, Json.integer(request.get("maxDelay")));
        List<Object> answers = new ArrayList<>();
        for (Object item : Json.array(request.get("rounds"))) {
            Map<String, Object> round = Json.object(item);
            now[0] = (Long) round.get("now");
            answers.add(round(assignor, round));
        }
        return answers;
    }

    private static Object round(IncrementalCooperativeAssignor assignor, Map<String, Object> round) throws Exception {
        WorkerCoordinator coordinator = coordinator(
            Json.object(round.get("configured")),
            Json.integer(round.get("completed")),
            Json.integer(round.get("generation")));
        List<JoinGroupResponseMember> members = new ArrayList<>();
        for (Map.Entry<String, Object> worker : Json.object(round.get("workers")).entrySet()) {
            ExtendedWorkerState state = new ExtendedWorkerState("http://" + worker.getKey(), 1, assignment(worker.getValue()));
            ByteBuffer bytes = IncrementalCooperativeConnectProtocol.serializeMetadata(state, true);
            members.add(new JoinGroupResponseMember().setMemberId(worker.getKey()).setMetadata(array(bytes)));
        }
        Map<String, ByteBuffer> answers = assignor.performAssignment(
            members.get(0).memberId(), ConnectProtocolCompatibility.SESSIONED, members, coordinator);
        Map<String, Object> changes = new LinkedHashMap<>();
        int delay = 0;
        for (Map.Entry<String, ByteBuffer> entry : answers.entrySet()) {
            ExtendedAssignment change = IncrementalCooperativeConnectProtocol.deserializeAssignment(entry.getValue());
            changes.put(entry.getKey(), List.of(
                work(change.connectors(), change.tasks()), work(change.revokedConnectors(), change.revokedTasks())));
            delay = change.delay();
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("changes", changes);
        answer.put("delay", delay);
        answer.put("scheduled", assignor.scheduledRebalance);
        answer.put("candidates", new ArrayList<>(assignor.candidateWorkersForReassignment));
        return answer;
    }

    /** {@code work} as the other side reads it. */
    public static Object wire(Map<String, Object> request) {
        ExtendedAssignment read = IncrementalCooperativeConnectProtocol.deserializeAssignment(
            IncrementalCooperativeConnectProtocol.serializeAssignment(assignment(request.get("work")), true));
        return work(read.connectors(), read.tasks());
    }

    private static ExtendedAssignment assignment(Object work) {
        List<Object> pair = Json.array(work);
        List<ConnectorTaskId> tasks = new ArrayList<>();
        for (Object task : Json.array(pair.get(1))) {
            List<Object> id = Json.array(task);
            tasks.add(new ConnectorTaskId((String) id.get(0), Json.integer(id.get(1))));
        }
        return new ExtendedAssignment(
            IncrementalCooperativeConnectProtocol.CONNECT_PROTOCOL_V2, ConnectProtocol.Assignment.NO_ERROR, "leader",
            "http://leader", 1, Json.strings(pair.get(0)), tasks, List.of(), List.of(), 0);
    }

    private static Object work(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        List<Object> ids = new ArrayList<>();
        for (ConnectorTaskId task : tasks) {
            ids.add(List.of(task.connector(), task.task()));
        }
        return List.of(connectors, ids);
    }

    private static WorkerCoordinator coordinator(Map<String, Object> configured, int completed, int generation) throws Exception {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        configured.forEach((connector, tasks) -> {
            counts.put(connector, Json.integer(tasks));
            configs.put(connector, Map.of());
        });
        WorkerCoordinator coordinator = (WorkerCoordinator) UNSAFE.allocateInstance(WorkerCoordinator.class);
        coordinator.configSnapshot(new ClusterConfigState(
            1, null, counts, configs, Map.of(), Map.of(), Map.of(), Map.of(), Map.of(), Set.of(), Set.of()));
        set(WorkerCoordinator.class, coordinator, "lastCompletedGenerationId", completed);
        Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.internals.AbstractCoordinator$Generation");
        var constructor = kind.getDeclaredConstructor(int.class, String.class, String.class);
        constructor.setAccessible(true);
        set(AbstractCoordinator.class, coordinator, "generation", constructor.newInstance(generation, "leader", "sessioned"));
        Class<?> states = Class.forName("org.apache.kafka.clients.consumer.internals.AbstractCoordinator$MemberState");
        set(AbstractCoordinator.class, coordinator, "state", states.getEnumConstants()[0]);
        return coordinator;
    }

    private static void set(Class<?> kind, Object object, String name, Object value) throws ReflectiveOperationException {
        Field field = kind.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    private static byte[] array(ByteBuffer bytes) {
        byte[] array = new byte[bytes.remaining()];
        bytes.duplicate().get(array);
        return array;
    }

    private ConnectHarness() {
    }
}
