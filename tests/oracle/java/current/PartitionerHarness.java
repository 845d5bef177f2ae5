package org.apache.kafka.clients.producer.internals;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import oracle.Json;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.LogContext;

/** Runs the producer's partitioners in their package, with the random numbers of the request. */
public final class PartitionerHarness {
    public static int partitionForKey(byte[] key, int partitions) {
        return BuiltInPartitioner.partitionForKey(key, partitions);
    }

    /** {@code steps}: {@code {"size", "switch"}} appends, {@code {"queues", "ids", "length"}} loads. */
    public static Object builtIn(Map<String, Object> request) {
        Iterator<Object> draws = Json.array(request.get("draws")).iterator();
        BuiltInPartitioner partitioner =
            new BuiltInPartitioner(new LogContext(), "t", Json.integer(request.get("batchSize"))) {
                @Override
                int randomPartition() {
                    return org.apache.kafka.common.utils.Utils.toPositive(Json.integer(draws.next()));
                }
            };
        Cluster cluster = cluster(request);
        List<Integer> chosen = new ArrayList<>();
        for (Object item : Json.array(request.get("steps"))) {
            Map<String, Object> step = Json.object(item);
            if (step.containsKey("queues")) {
                partitioner.updatePartitionLoadStats(
                    ints(step.get("queues")), ints(step.get("ids")), Json.integer(step.get("length")));
                continue;
            }
            BuiltInPartitioner.StickyPartitionInfo info = partitioner.peekCurrentPartitionInfo(cluster);
            chosen.add(info.partition());
            partitioner.updatePartitionInfo(
                info, Json.integer(step.get("size")), cluster, (Boolean) step.get("switch"));
        }
        return answer(chosen);
    }

    public static Object roundRobin(Map<String, Object> request) {
        RoundRobinPartitioner partitioner = new RoundRobinPartitioner();
        Cluster cluster = cluster(request);
        List<Integer> chosen = new ArrayList<>();
        for (int i = 0; i < Json.integer(request.get("records")); i++) {
            chosen.add(partitioner.partition("t", null, null, null, null, cluster));
        }
        return answer(chosen);
    }

    private static Map<String, Object> answer(List<Integer> chosen) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("partitions", chosen);
        return answer;
    }

    private static int[] ints(Object value) {
        if (value == null) {
            return null;
        }
        return Json.array(value).stream().mapToInt(Json::integer).toArray();
    }

    /** A topic "t" of which only the available partitions have a leader. */
    private static Cluster cluster(Map<String, Object> request) {
        Node node = new Node(0, "localhost", 9092);
        List<Object> available = Json.array(request.get("available"));
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int p = 0; p < Json.integer(request.get("partitions")); p++) {
            Node leader = available.contains((long) p) ? node : null;
            partitions.add(new PartitionInfo("t", p, leader, new Node[] {node}, new Node[] {node}));
        }
        return new Cluster("c", List.of(node), partitions, Set.of(), Set.of());
    }

    private PartitionerHarness() {
    }
}
