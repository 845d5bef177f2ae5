package oracle;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.ModernGroup;
import org.apache.kafka.coordinator.group.modern.SubscriptionCount;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;

/**
 * The server-side assignors as the coordinator runs them: through its TargetAssignmentBuilder, with members in the
 * order of the request and targets read from records. With {@code repeat} it answers that often and says how long
 * the whole build took ({@code buildNanos}) and the assignor in it ({@code nanos}).
 */
public final class Consumer implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        Image image = new Image(Json.object(request.get("topics")));
        Map<String, ConsumerGroupMember> members = new LinkedHashMap<>();
        Map<String, Assignment> targets = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        Map<String, SubscriptionCount> counts = new HashMap<>();
        for (Object item : Json.array(request.get("members"))) {
            Map<String, Object> member = Json.object(item);
            String id = (String) member.get("memberId");
            List<String> names = Json.strings(member.get("topics"));
            members.put(id, new ConsumerGroupMember.Builder(id)
                .setInstanceId((String) member.get("instanceId"))
                .setRackId((String) member.get("rackId"))
                .setSubscribedTopicNames(names)
                .build());
            new HashSet<>(names).forEach(name -> counts.compute(name, SubscriptionCount::incNameCount));
            targets.put(id, target(id, image, Json.object(member.get("owned")), inverted));
        }
        PartitionAssignor assignor = "range".equals(request.get("assignor")) ? new RangeAssignor() : new UniformAssignor();
        int repeat = request.containsKey("repeat") ? Json.integer(request.get("repeat")) : 1;
        Timed timed = new Timed(assignor);
        List<Object> nanos = new ArrayList<>();
        Map<String, MemberAssignment> assigned = Map.of();
        for (int i = 0; i < repeat; i++) {
            ConsumerTargetAssignmentBuilder builder = new ConsumerTargetAssignmentBuilder("g", 1, timed)
                .withTime(Time.SYSTEM)
                .withMembers(members)
                .withSubscriptionType(ModernGroup.subscriptionType(counts, members.size()))
                .withTargetAssignment(targets)
                .withInvertedTargetAssignment(inverted)
                .withMetadataImage(image);
            long start = System.nanoTime();
            assigned = builder.build().targetAssignment();
            nanos.add(System.nanoTime() - start);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("assignment", readable(members.keySet(), assigned, image));
        if (repeat > 1) {
            answer.put("buildNanos", nanos);
            answer.put("nanos", timed.nanos);
        }
        return answer;
    }

    static Assignment target(
        String member, Image image, Map<String, Object> owned, Map<Uuid, Map<Integer, String>> inverted
    ) {
        ConsumerGroupTargetAssignmentMemberValue record = new ConsumerGroupTargetAssignmentMemberValue();
        owned.forEach((name, partitions) -> {
            Uuid id = image.ids.get(name);
            if (id == null) {
                return; // a topic nobody knows the id of any more
            }
            List<Integer> numbers = new ArrayList<>();
            for (Object partition : Json.array(partitions)) {
                numbers.add(Json.integer(partition));
                inverted.computeIfAbsent(id, __ -> new HashMap<>()).put(Json.integer(partition), member);
            }
            record.topicPartitions().add(
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(id).setPartitions(numbers));
        });
        return Assignment.fromRecord(record);
    }

    private static Object readable(Set<String> members, Map<String, MemberAssignment> assigned, Image image) {
        Map<String, Object> answer = new LinkedHashMap<>();
        for (String member : members) {
            Map<String, Object> share = new TreeMap<>();
            if (assigned.containsKey(member)) {
                assigned.get(member).partitions().forEach((id, partitions) -> {
                    if (!partitions.isEmpty()) {
                        share.put(image.names.get(id), new TreeSet<>(partitions));
                    }
                });
            }
            answer.put(member, share);
        }
        return answer;
    }

    /** An assignor with a clock. */
    private static final class Timed implements PartitionAssignor {
        final List<Object> nanos = new ArrayList<>();
        private final PartitionAssignor assignor;

        Timed(PartitionAssignor assignor) {
            this.assignor = assignor;
        }

        @Override
        public String name() {
            return assignor.name();
        }

        @Override
        public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber describer) {
            long start = System.nanoTime();
            GroupAssignment answer = assignor.assign(group, describer);
            nanos.add(System.nanoTime() - start);
            return answer;
        }
    }

    /** The request's topics; one with 0 partitions has an id, and no metadata. */
    static final class Image implements CoordinatorMetadataImage {
        final Map<String, Uuid> ids = new HashMap<>();
        final Map<Uuid, String> names = new HashMap<>();
        private final Map<String, Integer> sizes = new HashMap<>();

        Image(Map<String, Object> topics) {
            topics.forEach((name, value) -> {
                Map<String, Object> topic = Json.object(value);
                if (topic.get("topicId") != null) {
                    ids.put(name, Uuid.fromString((String) topic.get("topicId")));
                    names.put(ids.get(name), name);
                }
                if (Json.integer(topic.get("partitions")) > 0) {
                    sizes.put(name, Json.integer(topic.get("partitions")));
                }
            });
        }

        @Override
        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        @Override
        public Set<String> topicNames() {
            return sizes.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(sizes.get(name)).map(size -> new Topic(name, ids.get(name), size));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.ofNullable(names.get(id)).flatMap(this::topicMetadata);
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return sizes.isEmpty();
        }
    }

    private record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }
}
