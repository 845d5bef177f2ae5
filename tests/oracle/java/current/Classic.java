package oracle;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.types.ArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.Type;

/** The client-side assignors; {@code userData} (base64) of a member goes to the assignor as it is. */
public final class Classic implements Handler {
    private static final Schema PREVIOUS = new Schema(
        new Field("topic", Type.STRING), new Field("partitions", new ArrayOf(Type.INT32)));
    private static final Schema USER_DATA = new Schema(
        new Field("previous_assignment", new ArrayOf(PREVIOUS)), new Field("generation", Type.INT32));

    @Override
    public Object answer(Map<String, Object> request) {
        String name = (String) request.get("assignor");
        Cluster cluster = cluster(Json.object(request.get("topics")));
        Map<String, Subscription> subscriptions = subscriptions(name, Json.array(request.get("members")));
        return Map.of("assignment", readable(
            assignor(name).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment()));
    }

    static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            default:
                return new CooperativeStickyAssignor();
        }
    }

    static Cluster cluster(Map<String, Object> topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.forEach((topic, described) -> {
            Map<String, Object> fields = Json.object(described);
            List<Object> racks = fields.get("racks") == null ? null : Json.array(fields.get("racks"));
            for (int p = 0; p < Json.integer(fields.get("partitions")); p++) {
                List<Node> replicas = new ArrayList<>();
                if (racks != null) {
                    for (String rack : Json.strings(racks.get(p))) {
                        replicas.add(nodes.computeIfAbsent(rack, r -> new Node(nodes.size(), "host", 9092, r)));
                    }
                }
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic, p, array.length == 0 ? null : array[0], array, array));
            }
        });
        return new Cluster("cluster", new ArrayList<>(nodes.values()), partitions,
            Collections.emptySet(), Collections.emptySet());
    }

    /** As the leader builds it from a JoinGroup response: a HashMap filled in the order of the members. */
    static Map<String, Subscription> subscriptions(String assignor, List<Object> members) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (Object item : members) {
            Map<String, Object> member = Json.object(item);
            subscriptions.put((String) member.get("memberId"), subscription(assignor, member));
        }
        return subscriptions;
    }

    private static Subscription subscription(String assignor, Map<String, Object> member) {
        List<TopicPartition> owned = new ArrayList<>();
        if (member.get("owned") != null) {
            Json.object(member.get("owned")).forEach((topic, partitions) ->
                Json.array(partitions).forEach(p -> owned.add(new TopicPartition(topic, Json.integer(p)))));
        }
        int generation = member.get("generation") == null ? -1 : Json.integer(member.get("generation"));
        ByteBuffer userData = userData(assignor, member, owned, generation);
        Subscription subscription = new Subscription(Json.strings(member.get("topics")), userData,
            assignor.equals("sticky") ? Collections.emptyList() : owned, generation,
            Optional.ofNullable((String) member.get("rackId")));
        subscription.setGroupInstanceId(Optional.ofNullable((String) member.get("instanceId")));
        return subscription;
    }

    private static ByteBuffer userData(
            String assignor, Map<String, Object> member, List<TopicPartition> owned, int generation) {
        if (member.get("userData") != null) {
            return ByteBuffer.wrap(Base64.getDecoder().decode((String) member.get("userData")));
        }
        if (assignor.equals("cooperative-sticky")) {
            ByteBuffer buffer = ByteBuffer.allocate(4);
            buffer.putInt(generation).flip();
            return buffer;
        }
        return assignor.equals("sticky") ? sticky(owned, generation) : null;
    }

    /** What StickyAssignor.subscriptionUserData writes (its own writer is package-private). */
    static ByteBuffer sticky(List<TopicPartition> owned, int generation) {
        Map<String, List<Integer>> byTopic = new LinkedHashMap<>();
        owned.forEach(p -> byTopic.computeIfAbsent(p.topic(), t -> new ArrayList<>()).add(p.partition()));
        List<Struct> previous = new ArrayList<>();
        byTopic.forEach((topic, partitions) -> previous.add(
            new Struct(PREVIOUS).set("topic", topic).set("partitions", partitions.toArray())));
        Struct struct = new Struct(USER_DATA)
            .set("previous_assignment", previous.toArray()).set("generation", generation);
        ByteBuffer buffer = ByteBuffer.allocate(USER_DATA.sizeOf(struct));
        USER_DATA.write(buffer, struct);
        buffer.flip();
        return buffer;
    }

    private static Map<String, Map<String, TreeSet<Integer>>> readable(Map<String, Assignment> assignments) {
        Map<String, Map<String, TreeSet<Integer>>> readable = new LinkedHashMap<>();
        assignments.forEach((member, assignment) -> {
            Map<String, TreeSet<Integer>> shares = new TreeMap<>();
            assignment.partitions().forEach(p ->
                shares.computeIfAbsent(p.topic(), t -> new TreeSet<>()).add(p.partition()));
            readable.put(member, shares);
        });
        return readable;
    }
}
