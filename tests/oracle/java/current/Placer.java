package oracle;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

/** KRaft's placer: {@code {"brokers": [[id, rack or null, fenced]], "partitions", "replicationFactor", "seed"}}. */
public final class Placer implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        List<UsableBroker> brokers = new ArrayList<>();
        for (Object item : Json.array(request.get("brokers"))) {
            List<Object> broker = Json.array(item);
            brokers.add(new UsableBroker(
                Json.integer(broker.get(0)), Optional.ofNullable((String) broker.get(1)), (Boolean) broker.get(2)));
        }
        StripedReplicaPlacer placer = new StripedReplicaPlacer(new Random((Long) request.get("seed")));
        PlacementSpec spec = new PlacementSpec(
            0, Json.integer(request.get("partitions")), (short) Json.integer(request.get("replicationFactor")));
        List<List<Integer>> placed = new ArrayList<>();
        for (PartitionAssignment partition : placer.place(spec, new Cluster(brokers)).assignments()) {
            placed.add(partition.replicas());
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("placement", placed);
        return answer;
    }

    private static final class Cluster implements ClusterDescriber {
        private final List<UsableBroker> brokers;

        Cluster(List<UsableBroker> brokers) {
            this.brokers = brokers;
        }

        @Override
        public Iterator<UsableBroker> usableBrokers() {
            return brokers.iterator();
        }

        @Override
        public Uuid defaultDir(int brokerId) {
            return Uuid.ZERO_UUID;
        }
    }
}
