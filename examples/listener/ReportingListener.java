import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.*;

/**
 * Tells the monitor of a Java consumer's rebalances: the events of docs/reference/records.md, from a thread and a
 * producer of its own. Bounded: what does not fit while the monitor's cluster is away is dropped, and the newest state
 * is said again once it takes records.
 *
 * <p>java -cp 'kafka/libs/*' ReportingListener.java kafka:9092 monitor-kafka:9092 payments orders [cooperative]
 */
public final class ReportingListener implements ConsumerRebalanceListener, AutoCloseable {
    private static final long[] SAID_AGAIN_MS = {2_000, 10_000};
    private static final long BEAT_MS = 3_000;

    private final Consumer<?, ?> consumer;
    private final ConsumerRebalanceListener own;
    private final String group, topics, about, prefix, source = "listener/" + UUID.randomUUID();
    private final boolean incremental;
    private final Producer<String, byte[]> producer;
    private final ScheduledThreadPoolExecutor sender = new ScheduledThreadPoolExecutor(1, task -> {
        Thread thread = new Thread(task, "rebalance-listener");
        thread.setDaemon(true);
        return thread;
    });
    private final BlockingQueue<String[]> waiting = new ArrayBlockingQueue<>(1_000);

    // The membership; guarded by this.
    private final SortedMap<String, SortedSet<Integer>> owned = new TreeMap<>();
    private String member;
    private int generation = -1, repeated, count;
    private long since, beatAt;
    private boolean between, leaving;
    private volatile boolean missed;

    public ReportingListener(
            Consumer<?, ?> consumer, ConsumerRebalanceListener own, String monitor, String prefix, String group,
            Collection<String> topics, String assignor, int sessionTimeoutMs, boolean incremental) {
        this.consumer = consumer;
        this.own = own;
        this.group = group;
        this.prefix = prefix;
        this.incremental = incremental;
        this.topics = array(topics);
        this.about = ",\"assignors\":[" + text(assignor) + "],\"sessionTimeoutMs\":" + sessionTimeoutMs;
        this.producer = new KafkaProducer<>(
            Map.of(
                "bootstrap.servers", monitor, "max.block.ms", "1000", "delivery.timeout.ms", "2147483647",
                "buffer.memory", "1048576", "compression.type", "lz4"),
            new StringSerializer(), new ByteArraySerializer()); // its default partitioner is murmur2 of the key
        sender.scheduleWithFixedDelay(this::round, 0, 250, TimeUnit.MILLISECONDS);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        try {
            own.onPartitionsAssigned(partitions);
        } finally {
            safely(() -> assigned(partitions));
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        try {
            own.onPartitionsRevoked(partitions);
        } finally {
            safely(() -> revoked(partitions));
        }
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        try {
            own.onPartitionsLost(partitions);
        } finally {
            safely(() -> gone("member.fenced", "its partitions were lost"));
        }
    }

    /** Before the consumer is closed: what it gives up from now on it gives up for good. */
    public synchronized void leaves() {
        leaving = true;
    }

    /** After the consumer was closed: its leave, and two seconds to send it. */
    @Override
    public void close() {
        safely(() -> gone("member.left", "the consumer was closed"));
        sender.shutdown();
        safely(() -> {
            if (sender.awaitTermination(1, TimeUnit.SECONDS)) send();
            producer.close(Duration.ofSeconds(1));
        });
    }

    private synchronized void assigned(Collection<TopicPartition> partitions) {
        if (!incremental) owned.clear();
        byTopic(partitions).forEach((topic, numbers) -> owned.merge(topic, numbers, (held, given) -> {
            held.addAll(given);
            return held;
        }));
        stand(",\"assigned\":" + shares(byTopic(partitions)));
    }

    private synchronized void revoked(Collection<TopicPartition> partitions) {
        for (TopicPartition one : partitions) {
            owned.getOrDefault(one.topic(), new TreeSet<>()).remove(one.partition());
        }
        owned.values().removeIf(Set::isEmpty);
        String change = ",\"revoked\":" + shares(byTopic(partitions));
        if (incremental && !leaving) {
            stand(change);
        } else if (member != null) { // between two generations, or on its way out
            between = true;
            acknowledge(change);
        }
    }

    private void stand(String change) {
        ConsumerGroupMetadata metadata = consumer.groupMetadata();
        boolean joins = !metadata.memberId().equals(member);
        member = metadata.memberId();
        generation = metadata.generationId();
        between = false;
        since = System.nanoTime();
        beatAt = since + TimeUnit.MILLISECONDS.toNanos(BEAT_MS);
        repeated = 0;
        if (joins) join();
        acknowledge(change);
    }

    private void join() {
        put("member.joined", ",\"topics\":" + topics + about + ",\"acknowledges\":true");
    }

    private void acknowledge(String change) {
        long heldMs = between ? 0 : TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - since);
        put("member.assignment_acknowledged",
            ",\"generation\":" + (between ? -1 : generation) + ",\"owned\":" + shares(owned) + ",\"heldMs\":" + heldMs
                + change);
    }

    private static SortedMap<String, SortedSet<Integer>> byTopic(Collection<TopicPartition> partitions) {
        SortedMap<String, SortedSet<Integer>> found = new TreeMap<>();
        for (TopicPartition one : partitions) {
            found.computeIfAbsent(one.topic(), topic -> new TreeSet<>()).add(one.partition());
        }
        return found;
    }

    private static String shares(SortedMap<String, SortedSet<Integer>> partitions) {
        StringJoiner found = new StringJoiner(",", "{", "}");
        partitions.forEach((topic, numbers) -> found.add(text(topic) + ":" + numbers));
        return found.toString();
    }

    private synchronized void gone(String type, String reason) {
        if (member != null) put(type, ",\"reason\":" + text(reason) + ",\"acknowledges\":true");
        member = null;
        owned.clear();
    }

    /** In the sender's thread, four times a second. */
    private void round() {
        safely(() -> {
            due();
            send();
        });
    }

    private synchronized void due() {
        if (member == null) return;
        long now = System.nanoTime(), held = TimeUnit.NANOSECONDS.toMillis(now - since);
        if (missed && waiting.isEmpty()) { // the newest state, for those who have missed what came before
            missed = false;
            join();
            if (!between) {
                since = now;
                repeated = 0;
                acknowledge("");
            }
        } else if (!between && repeated < SAID_AGAIN_MS.length && held >= SAID_AGAIN_MS[repeated]) {
            repeated++;
            acknowledge("");
        } else if (now >= beatAt) {
            put("member.heartbeat", ",\"generation\":" + generation);
        } else {
            return;
        }
        beatAt = now + TimeUnit.MILLISECONDS.toNanos(BEAT_MS);
    }

    private void put(String type, String fields) {
        long now = System.currentTimeMillis();
        String value = "{\"groupId\":" + text(group) + ",\"timestamp\":" + now + ",\"memberId\":" + text(member)
            + fields + "}";
        String[] event = {type, String.valueOf(++count), Instant.ofEpochMilli(now).toString(), value};
        while (!waiting.offer(event)) {
            waiting.poll();
            missed = true;
        }
    }

    private void send() {
        for (String[] event; (event = waiting.peek()) != null; waiting.remove(event)) {
            RecordHeaders headers = new RecordHeaders();
            String[] names = {"ce_specversion", "ce_type", "ce_id", "ce_source", "ce_time", "content-type"};
            String[] values = {"1.0", event[0], event[1], source, event[2], "application/json"};
            for (int n = 0; n < names.length; n++) headers.add(names[n], values[n].getBytes(UTF_8));
            String topic = prefix + "rebalance.membership";
            // Waits up to max.block.ms, in this thread; then it is tried again.
            producer.send(
                new ProducerRecord<>(topic, null, group, event[3].getBytes(UTF_8), headers),
                (metadata, error) -> missed |= error != null);
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    /** Nothing of it is thrown into the application. */
    private void safely(Step step) {
        try {
            step.run();
        } catch (Exception error) {
            missed = true;
            System.getLogger("rebalance-listener").log(System.Logger.Level.WARNING, "the monitor is not told", error);
        }
    }

    private static String array(Collection<String> words) {
        StringJoiner found = new StringJoiner(",", "[", "]");
        words.forEach(word -> found.add(text(word)));
        return found.toString();
    }

    private static String text(String word) {
        StringBuilder found = new StringBuilder("\"");
        for (char one : word.toCharArray()) {
            if (one == '"' || one == '\\') found.append('\\').append(one);
            else if (one < ' ') found.append(String.format("\\u%04x", (int) one));
            else found.append(one);
        }
        return found.append('"').toString();
    }

    /** The application's own listener, called as ever. */
    private static final class Own implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            System.out.println("mine now, too: " + partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            System.out.println("given up: " + partitions);
        }
    }

    public static void main(String[] args) {
        String servers = args[0], monitor = args[1], group = args[2], topic = args[3];
        boolean cooperative = args.length > 4 && args[4].equals("cooperative");
        String prefix = args.length > 5 ? args[5] : "";
        Class<?> assignor = cooperative ? CooperativeStickyAssignor.class : RangeAssignor.class;
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", servers, "group.id", group, "session.timeout.ms", "6000",
                "auto.offset.reset", "earliest", "partition.assignment.strategy", assignor.getName()),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
        ReportingListener listener = new ReportingListener(
            consumer, new Own(), monitor, prefix, group, List.of(topic),
            cooperative ? "cooperative-sticky" : "range", 6_000, cooperative);
        Thread loop = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                loop.join();
            } catch (InterruptedException error) {
                loop.interrupt();
            }
        }));
        consumer.subscribe(List.of(topic), listener);
        try {
            while (true) consumer.poll(Duration.ofMillis(200));
        } catch (org.apache.kafka.common.errors.WakeupException end) {
            listener.leaves();
            consumer.close();
            listener.close();
        }
    }
}
