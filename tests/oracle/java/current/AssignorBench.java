package oracle;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Times one shape of benchmarks/assignors.py on the classes themselves, and gives a checksum of the answer. The group
 * is built here from its shape: member {@code m} of {@code order} subscribes to bucket {@code m·buckets/members}.
 */
public final class AssignorBench implements Handler {
    private static final String NEWCOMER = "newMember";

    @Override
    public Object answer(Map<String, Object> request) {
        String name = (String) request.get("assignor");
        Cluster cluster = cluster(request);
        Map<String, Subscription> group = group(request);
        if ((Boolean) request.get("join")) {
            group = joined(request, group, Classic.assignor(name).assign(cluster, new GroupSubscription(group)));
        }
        GroupSubscription subscription = new GroupSubscription(group);
        long best = Long.MAX_VALUE;
        Map<String, Assignment> answer = null;
        LongSupplier clock = ConsumerBench.clock(request);
        long deadline = clock.getAsLong() + 1_000_000L * (Long) request.get("budgetMs");
        int runs = 0;
        do {
            ConsumerPartitionAssignor assignor = Classic.assignor(name);
            group.values().forEach(AssignorBench::rewind);
            long start = clock.getAsLong();
            answer = assignor.assign(cluster, subscription).groupAssignment();
            best = Math.min(best, clock.getAsLong() - start);
            runs++;
        } while (clock.getAsLong() < deadline);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("ms", best / 1e6);
        result.put("runs", runs);
        result.put("checksum", checksum(answer));
        return result;
    }

    /** An assignor reads user data to its end. */
    private static void rewind(Subscription subscription) {
        if (subscription.userData() != null) {
            subscription.userData().rewind();
        }
    }

    static List<String> bucket(Map<String, Object> request, int member) {
        int topics = Json.integer(request.get("topics"));
        int members = Json.integer(request.get("members"));
        int buckets = Json.integer(request.get("buckets"));
        int perBucket = (topics + buckets - 1) / buckets;
        int bucket = member / ((members + buckets - 1) / buckets);
        List<String> names = new ArrayList<>();
        for (int t = bucket * perBucket; t < Math.min(topics, (bucket + 1) * perBucket); t++) {
            names.add("topic" + t);
        }
        return names;
    }

    private static Cluster cluster(Map<String, Object> request) {
        List<Node> nodes = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            nodes.add(new Node(i, "host", 9092, "rack" + i));
        }
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int t = 0; t < Json.integer(request.get("topics")); t++) {
            for (int p = 0; p < Json.integer(request.get("partitions")); p++) {
                Node[] replicas = {nodes.get(p % 3), nodes.get((p + 1) % 3)};
                partitions.add(new PartitionInfo("topic" + t, p, replicas[0], replicas, replicas));
            }
        }
        return new Cluster("cluster", nodes, partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static Map<String, Subscription> group(Map<String, Object> request) {
        Map<Integer, List<String>> buckets = new HashMap<>();
        Map<String, Subscription> group = new HashMap<>();
        for (Object number : Json.array(request.get("order"))) {
            int member = Json.integer(number);
            List<String> topics = bucket(request, member);
            topics = buckets.computeIfAbsent(topics.hashCode(), h -> bucket(request, member));
            group.put("member" + member, subscription(request, topics, Collections.emptyList(), member));
        }
        return group;
    }

    private static Subscription subscription(
            Map<String, Object> request, List<String> topics, List<TopicPartition> owned, int member) {
        // StickyAssignor looks at nothing that is owned but what a member says in its own bytes.
        boolean sticky = "sticky".equals(request.get("assignor"));
        return new Subscription(topics, sticky ? Classic.sticky(owned, -1) : null, sticky ? List.of() : owned, -1,
            (Boolean) request.get("racks") ? Optional.of("rack" + member % 3) : Optional.empty());
    }

    private static Map<String, Subscription> joined(
            Map<String, Object> request, Map<String, Subscription> group, ConsumerPartitionAssignor.GroupAssignment before) {
        Map<String, Subscription> after = new HashMap<>();
        for (Object number : Json.array(request.get("order"))) {
            int member = Json.integer(number);
            String name = "member" + member;
            after.put(name, subscription(request, group.get(name).topics(),
                before.groupAssignment().get(name).partitions(), member));
        }
        int last = Json.integer(request.get("members")) - 1;
        int like = (Boolean) request.get("joinFirst") ? 0 : last;
        after.put(NEWCOMER, subscription(request, bucket(request, like), Collections.emptyList(), last + 1));
        return after;
    }

    /** The same sum in any order. */
    private static String checksum(Map<String, Assignment> answer) {
        long sum = 0;
        for (Map.Entry<String, Assignment> entry : answer.entrySet()) {
            long member = entry.getKey().hashCode();
            for (TopicPartition p : entry.getValue().partitions()) {
                long mixed = (member * 1_000_003L + p.topic().hashCode()) * 1_000_003L + p.partition();
                sum += mixed * mixed;
            }
        }
        return Long.toHexString(sum);
    }
}
