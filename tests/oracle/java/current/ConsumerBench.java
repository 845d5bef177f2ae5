package oracle;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;

/**
 * As AssignorBench for the assignors of the consumer protocol: the coordinator's builder hands them the group, and
 * only their own time counts. {@code topicIds} are those of topic 0, 1, …
 */
public final class ConsumerBench implements Handler {
    private static final String NEWCOMER = "newMember";

    @Override
    public Object answer(Map<String, Object> request) {
        Consumer.Image image = image(request);
        Map<String, ConsumerGroupMember> members = new LinkedHashMap<>();
        Map<Integer, List<String>> names = new HashMap<>();
        for (Object number : Json.array(request.get("order"))) {
            int member = Json.integer(number);
            members.put("member" + member, member("member" + member, names, request, member));
        }
        boolean equal = Json.integer(request.get("buckets")) == 1;
        Group group = new Group(image, equal ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, members);
        Clocked clocked = new Clocked(
            "range".equals(request.get("assignor")) ? new RangeAssignor() : new UniformAssignor(), clock(request));
        if ((Boolean) request.get("join")) {
            clocked.assignTo(group).forEach(group::own);
            int like = (Boolean) request.get("joinFirst") ? 0 : Json.integer(request.get("members")) - 1;
            members.put(NEWCOMER, member(NEWCOMER, names, request, like));
        }
        clocked.best = Long.MAX_VALUE;
        long best = Long.MAX_VALUE;
        long deadline = clocked.clock.getAsLong() + 1_000_000L * (Long) request.get("budgetMs");
        Map<String, MemberAssignment> answer;
        int runs = 0;
        do {
            long start = clocked.clock.getAsLong();
            answer = clocked.assignTo(group);
            best = Math.min(best, clocked.clock.getAsLong() - start);
            runs++;
        } while (clocked.clock.getAsLong() < deadline);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("ms", clocked.best / 1e6);
        result.put("builderMs", best / 1e6);
        result.put("runs", runs);
        result.put("checksum", checksum(answer, image));
        return result;
    }

    /** Nanoseconds that pass, or those that this thread computed. */
    static LongSupplier clock(Map<String, Object> request) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        return (Boolean) request.get("processorTime") ? threads::getCurrentThreadCpuTime : System::nanoTime;
    }

    private static Consumer.Image image(Map<String, Object> request) {
        List<String> ids = Json.strings(request.get("topicIds"));
        Map<String, Object> topics = new LinkedHashMap<>();
        for (int t = 0; t < ids.size(); t++) {
            topics.put("topic" + t, Map.of("topicId", ids.get(t), "partitions", request.get("partitions")));
        }
        return new Consumer.Image(topics);
    }

    private static ConsumerGroupMember member(
            String id, Map<Integer, List<String>> names, Map<String, Object> request, int like) {
        List<String> topics = AssignorBench.bucket(request, like);
        return new ConsumerGroupMember.Builder(id)
            .setSubscribedTopicNames(names.computeIfAbsent(topics.hashCode(), __ -> topics))
            .build();
    }

    private static String checksum(Map<String, MemberAssignment> answer, Consumer.Image image) {
        long sum = 0;
        for (Map.Entry<String, MemberAssignment> entry : answer.entrySet()) {
            long member = entry.getKey().hashCode();
            for (Map.Entry<Uuid, Set<Integer>> share : entry.getValue().partitions().entrySet()) {
                long topic = (member * 1_000_003L + image.names.get(share.getKey()).hashCode()) * 1_000_003L;
                for (int partition : share.getValue()) {
                    sum += (topic + partition) * (topic + partition);
                }
            }
        }
        return Long.toHexString(sum);
    }

    /** What the builder is given, and the targets as a coordinator holds them. */
    private record Group(
        Consumer.Image image,
        SubscriptionType subscriptions,
        Map<String, ConsumerGroupMember> members,
        Map<String, Assignment> targets,
        Map<Uuid, Map<Integer, String>> inverted
    ) {
        Group(Consumer.Image image, SubscriptionType subscriptions, Map<String, ConsumerGroupMember> members) {
            this(image, subscriptions, members, new HashMap<>(), new HashMap<>());
        }

        /** Topics by name, that the order in which a map got them is the same as in Python. */
        void own(String member, MemberAssignment assigned) {
            Map<String, Object> share = new TreeMap<>();
            assigned.partitions().forEach((id, numbers) -> share.put(
                image.names.get(id), List.copyOf(numbers.stream().map(Integer::longValue).toList())));
            targets.put(member, Consumer.target(member, image, share, inverted));
        }
    }

    /** An assignor and its fastest answer. */
    private static final class Clocked implements PartitionAssignor {
        long best = Long.MAX_VALUE;
        private final PartitionAssignor assignor;
        private final LongSupplier clock;

        Clocked(PartitionAssignor assignor, LongSupplier clock) {
            this.assignor = assignor;
            this.clock = clock;
        }

        Map<String, MemberAssignment> assignTo(Group group) {
            return new ConsumerTargetAssignmentBuilder("g", 1, this)
                .withTime(Time.SYSTEM)
                .withMembers(group.members())
                .withSubscriptionType(group.subscriptions())
                .withTargetAssignment(group.targets())
                .withInvertedTargetAssignment(group.inverted())
                .withMetadataImage(group.image())
                .build()
                .targetAssignment();
        }

        @Override
        public String name() {
            return assignor.name();
        }

        @Override
        public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber describer) {
            long start = clock.getAsLong();
            GroupAssignment answer = assignor.assign(group, describer);
            best = Math.min(best, clock.getAsLong() - start);
            return answer;
        }
    }
}
