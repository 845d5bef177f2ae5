import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import oracle.Json;

/**
 * Java consumers on strings: one JSON command a line on standard input, one callback a line on standard output.
 *
 * <p>{"do": "start", "name", "config": {}, "topics": [], "marks"}, {"do": "subscribe", "name", "topics"},
 * {"do": "stall", "name", "ms"}: it does not poll for so long, {"do": "rejoin", "name", "reason"}: enforceRebalance,
 * {"do": "close", "name", "how": "LEAVE_GROUP" | "REMAIN_IN_GROUP" | "DEFAULT"}.
 *
 * <p>"marks" may be left out: a file that takes a line for each partition that a poll has records of: the time, the
 * topic, the partition, the number of its assignments to this consumer so far, the first offset, and the offset after
 * the last one. A line with the offsets -1 marks an assignment of the partition.
 *
 * <p>With "commits", a file, a consumer that holds partitions commits one of them every half second, and waits for the
 * answer. The file takes a line for each commit: when it was sent and answered, and 1 if it was stored, else 0.
 */
public final class Puppets {
    private static final PrintStream OUT = System.out;
    private static final Duration POLL = Duration.ofMillis(Long.getLong("poll.ms", 20));

    private static synchronized void say(
        String name, String event, Collection<TopicPartition> owned, long generation, String member) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("name", name);
        line.put("event", event);
        line.put("at", System.currentTimeMillis());
        line.put("generation", generation);
        line.put("member", member);
        Map<String, TreeSet<Long>> sorted = new TreeMap<>();
        for (TopicPartition one : owned) {
            sorted.computeIfAbsent(one.topic(), topic -> new TreeSet<>()).add((long) one.partition());
        }
        Map<String, Object> share = new LinkedHashMap<>();
        sorted.forEach((topic, partitions) -> share.put(topic, new ArrayList<Object>(partitions)));
        line.put("owned", share);
        OUT.println(Json.write(line));
        OUT.flush();
    }

    private static final class Puppet implements Runnable, ConsumerRebalanceListener {
        final String name;
        final KafkaConsumer<byte[], byte[]> consumer;
        final ConcurrentLinkedQueue<Map<String, Object>> commands = new ConcurrentLinkedQueue<>();
        final Map<TopicPartition, Integer> times = new HashMap<>();
        final OutputStream marks;
        final OutputStream commits;
        long committed;
        long offset;

        Puppet(Map<String, Object> command) throws IOException {
            marks = file(command, "marks");
            commits = file(command, "commits");
            name = (String) command.get("name");
            Properties config = new Properties();
            Json.object(command.get("config")).forEach((key, value) -> config.put(key, String.valueOf(value)));
            consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(Json.strings(command.get("topics")), this);
        }

        private static OutputStream file(Map<String, Object> command, String key) throws IOException {
            return command.containsKey(key) ? new FileOutputStream((String) command.get(key), true) : null;
        }

        @Override
        public void run() {
            try {
                while (true) {
                    mark(consumer.poll(POLL));
                    commit();
                    Map<String, Object> command = commands.poll();
                    if (command == null) {
                        continue;
                    }
                    if ("subscribe".equals(command.get("do"))) {
                        consumer.subscribe(Json.strings(command.get("topics")), this);
                        continue;
                    }
                    if ("rejoin".equals(command.get("do"))) {
                        consumer.enforceRebalance((String) command.get("reason"));
                        continue;
                    }
                    if ("stall".equals(command.get("do"))) {
                        Thread.sleep((Long) command.get("ms"));
                        continue;
                    }
                    CloseOptions.GroupMembershipOperation how =
                        CloseOptions.GroupMembershipOperation.valueOf((String) command.get("how"));
                    consumer.close(CloseOptions.groupMembershipOperation(how).withTimeout(Duration.ofSeconds(5)));
                    say(name, "closed", List.of(), -1, "");
                    return;
                }
            } catch (Throwable error) {
                say(name, "failed: " + error, List.of(), -1, "");
            }
        }

        /** Not buffered: whoever is killed has written what it had consumed. */
        private void mark(ConsumerRecords<byte[], byte[]> records) throws IOException {
            if (marks == null || records.isEmpty()) {
                return;
            }
            long at = System.currentTimeMillis();
            StringBuilder lines = new StringBuilder();
            for (TopicPartition one : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> batch = records.records(one);
                lines.append(line(at, one, batch.get(0).offset(), batch.get(batch.size() - 1).offset() + 1));
            }
            marks.write(lines.toString().getBytes("UTF-8"));
        }

        private String line(long at, TopicPartition one, long first, long next) {
            return at + " " + one.topic() + " " + one.partition() + " " + times.get(one) + " " + first + " " + next + "\n";
        }

        private void markAssigned(Collection<TopicPartition> partitions) {
            long at = System.currentTimeMillis();
            StringBuilder lines = new StringBuilder();
            partitions.forEach(one -> lines.append(line(at, one, -1, -1)));
            try {
                marks.write(lines.toString().getBytes("UTF-8"));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        private void commit() throws IOException {
            long sent = System.currentTimeMillis();
            if (commits == null || held.isEmpty() || sent - committed < 500) {
                return;
            }
            committed = sent;
            int stored = 1;
            try {
                consumer.commitSync(Map.of(held.iterator().next(), new OffsetAndMetadata(offset++)));
            } catch (KafkaException error) {
                stored = 0;
            }
            commits.write((sent + " " + System.currentTimeMillis() + " " + stored + "\n").getBytes("UTF-8"));
        }

        private void tell(String event, Collection<TopicPartition> partitions, boolean add) {
            for (TopicPartition one : partitions) {
                if (add) {
                    held.add(one);
                } else {
                    held.remove(one);
                }
            }
            say(name, event, held, consumer.groupMetadata().generationId(), consumer.groupMetadata().memberId());
        }

        final java.util.HashSet<TopicPartition> held = new java.util.HashSet<>();

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            partitions.forEach(one -> times.merge(one, 1, Integer::sum));
            if (marks != null) {
                markAssigned(partitions);
            }
            tell("assigned", partitions, true);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions, false);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Puppet> puppets = new LinkedHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> command = Json.object(Json.parse(line));
            String name = (String) command.get("name");
            if ("start".equals(command.get("do"))) {
                Puppet puppet = new Puppet(command);
                puppets.put(name, puppet);
                Thread thread = new Thread(puppet, name);
                thread.setDaemon(true);
                thread.start();
            } else {
                puppets.get(name).commands.add(command);
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
