package org.apache.kafka.admin;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import oracle.Json;

/**
 * {@code {"brokers": [[id, rack or null]], "partitions", "replicationFactor", "startIndex", "startPartition"}}, or
 * {@code "seed"} in place of a start index: then the class draws start and shift itself.
 */
public final class AdminHarness {
    public static Object answer(Map<String, Object> request) {
        List<BrokerMetadata> brokers = new ArrayList<>();
        for (Object item : Json.array(request.get("brokers"))) {
            List<Object> broker = Json.array(item);
            brokers.add(new BrokerMetadata(Json.integer(broker.get(0)), Optional.ofNullable((String) broker.get(1))));
        }
        int start = -1;
        if (request.get("seed") == null) {
            start = Json.integer(request.get("startIndex"));
        } else {
            AdminUtils.RAND.setSeed((Long) request.get("seed"));
        }
        Map<Integer, List<Integer>> placed = AdminUtils.assignReplicasToBrokers(brokers,
            Json.integer(request.get("partitions")), Json.integer(request.get("replicationFactor")), start,
            Json.integer(request.get("startPartition")));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("placement", placed);
        return answer;
    }

    private AdminHarness() {
    }
}
