package oracle;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;

/**
 * Times the old consumer's assignors on one shape of benchmarks/assignors.py, from what they have read from ZooKeeper
 * on: as often as it takes until all topics are answered for.
 */
public final class ZookeeperBench implements Handler {
    private static final String GROUP = "g";
    private final Tree tree = new Tree();
    private final Era era = new Era(tree);

    @Override
    public Object answer(Map<String, Object> request) {
        String assignor = (String) request.get("assignor");
        Map<String, Set<String>> topicsOf = Zookeeper.register(tree, GROUP, request);
        List<Era.Question> questions = new ArrayList<>();
        Set<String> told = new HashSet<>();
        Set<String> given = new HashSet<>();
        long[] sum = new long[1];
        for (Map.Entry<String, Set<String>> consumer : topicsOf.entrySet()) {
            if (!told.containsAll(consumer.getValue())) {
                Era.Question question = era.question(assignor, GROUP, consumer.getKey(), topicsOf.keySet());
                questions.add(question);
                told.addAll(consumer.getValue());
                question.claim((topic, partition, thread) -> {
                    told.add(topic); // round robin answers for topics that the asking one does not subscribe to
                    if (given.add(topic + "-" + partition)) {
                        long mixed = (thread.hashCode() * 1_000_003L + topic.hashCode()) * 1_000_003L + partition;
                        sum[0] += mixed * mixed;
                    }
                });
            }
        }
        LongSupplier clock = (Boolean) request.get("processorTime")
            ? ManagementFactory.getThreadMXBean()::getCurrentThreadCpuTime : System::nanoTime;
        long best = Long.MAX_VALUE;
        long deadline = clock.getAsLong() + 1_000_000L * (Long) request.get("budgetMs");
        int runs = 0;
        do {
            long start = clock.getAsLong();
            questions.forEach(Era.Question::answer);
            best = Math.min(best, clock.getAsLong() - start);
            runs++;
        } while (clock.getAsLong() < deadline);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("ms", best / 1e6);
        result.put("runs", runs);
        result.put("checksum", Long.toHexString(sum[0]));
        return result;
    }
}
