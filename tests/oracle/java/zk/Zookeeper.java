package oracle;

import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The old consumer's assignors: a group is written to an in-memory ZooKeeper as its consumers would register, then
 * every consumer computes its own share with the released class. {@link Era} is what differs between releases: where
 * an assignor answers for the whole group, consumers whose topics have all been answered are asked only when the
 * request says {@code everyone}.
 */
public final class Zookeeper implements Handler {
    private static final String GROUP = "g";
    private final Tree tree = new Tree();
    private final Era era = new Era(tree);

    @Override
    public Object answer(Map<String, Object> request) throws Exception {
        Map<String, Set<String>> topicsOf = register(tree, GROUP, request);
        Map<String, Map<String, TreeSet<Integer>>> answer = new TreeMap<>();
        String assignor = (String) request.get("assignor");
        boolean everyone = Boolean.TRUE.equals(request.get("everyone"));
        Set<String> told = new HashSet<>();
        for (Map.Entry<String, Set<String>> consumer : topicsOf.entrySet()) {
            if (!Era.ANSWERS_FOR_ALL || everyone || !told.containsAll(consumer.getValue())) {
                era.claim(assignor, GROUP, consumer.getKey(), topicsOf.keySet(), (topic, partition, thread) -> answer
                    .computeIfAbsent(thread, __ -> new TreeMap<>())
                    .computeIfAbsent(topic, __ -> new TreeSet<>())
                    .add(partition));
                told.addAll(consumer.getValue());
            }
        }
        return Map.of("assignment", answer);
    }

    /** Writes a group to an empty tree; the topics of each consumer. */
    static Map<String, Set<String>> register(Tree tree, String group, Map<String, Object> request) {
        tree.clear();
        Json.object(request.get("topics")).forEach((name, topic) -> {
            int size = Json.integer(Json.object(topic).get("partitions"));
            if (size > 0) { // 0 is a topic without metadata
                Map<String, Object> replicas = new LinkedHashMap<>();
                for (int partition = 0; partition < size; partition++) {
                    replicas.put(Integer.toString(partition), List.of(0));
                }
                tree.put("/brokers/topics/" + name, Json.write(Map.of("version", 1, "partitions", replicas)));
            }
        });
        Map<String, Set<String>> topicsOf = new LinkedHashMap<>();
        for (Object item : Json.array(request.get("members"))) {
            Map<String, Object> member = Json.object(item);
            topicsOf.put((String) member.get("memberId"), Json.object(member.get("streams")).keySet());
            tree.put("/consumers/" + group + "/ids/" + member.get("memberId"), Json.write(Map.of(
                "version", 1, "subscription", member.get("streams"), "pattern", "static", "timestamp", "1")));
        }
        return topicsOf;
    }

    /** Takes one decision of an assignor. */
    interface Claims {
        void add(String topic, int partition, String thread);
    }
}
