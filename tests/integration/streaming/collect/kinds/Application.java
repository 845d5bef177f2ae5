import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import oracle.Json;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * A Kafka Streams application that counts the records of a topic by key: {"topic", "config": {}, "leaves"} as its
 * argument. It says what its threads' metadata say, by client id, a JSON object a line, whenever that changes, and
 * closes when its standard input ends; with "leaves" it sends LeaveGroup then.
 */
public final class Application {
    private static String last = "";

    private static synchronized void say(Map<String, Object> report) {
        String line = Json.write(report);
        if (!line.equals(last)) {
            last = line;
            System.out.println(line);
            System.out.flush();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> asked = Json.object(Json.parse(arguments[0]));
        Properties config = new Properties();
        Json.object(asked.get("config")).forEach((key, value) -> config.put(key, String.valueOf(value)));
        AtomicBoolean ended = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException error) {
                System.err.println(error);
            }
            ended.set(true);
        });
        input.setDaemon(true);
        input.start();
        CloseOptions close = CloseOptions.timeout(Duration.ofSeconds(20));
        if (Boolean.TRUE.equals(asked.get("leaves"))) {
            close = close.withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        }
        streams(config, (String) asked.get("topic"), close, ended);
        Runtime.getRuntime().halt(0);
    }

    private static void streams(Properties config, String topic, CloseOptions close, AtomicBoolean ended)
        throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey()
            .count(Materialized.as("counts"))
            .toStream()
            .foreach((key, count) -> { });
        try (KafkaStreams application = new KafkaStreams(builder.build(), config)) {
            application.start();
            while (!ended.get()) {
                Map<String, Object> report = new LinkedHashMap<>();
                for (ThreadMetadata thread : application.metadataForLocalThreads()) {
                    report.put(thread.consumerClientId(), Map.of(
                        "active", tasks(thread.activeTasks()),
                        "partitions", partitions(thread.activeTasks()),
                        "standby", tasks(thread.standbyTasks()),
                        "state", application.state().name()));
                }
                say(report);
                Thread.sleep(50);
            }
            application.close(close);
        }
    }

    private static Map<String, Object> tasks(Iterable<TaskMetadata> tasks) {
        Map<String, TreeSet<Long>> found = new TreeMap<>();
        for (TaskMetadata task : tasks) {
            found.computeIfAbsent(String.valueOf(task.taskId().subtopology()), name -> new TreeSet<>())
                .add((long) task.taskId().partition());
        }
        return lists(found);
    }

    private static Map<String, Object> partitions(Iterable<TaskMetadata> tasks) {
        Map<String, TreeSet<Long>> found = new TreeMap<>();
        for (TaskMetadata task : tasks) {
            for (TopicPartition one : task.topicPartitions()) {
                found.computeIfAbsent(one.topic(), name -> new TreeSet<>()).add((long) one.partition());
            }
        }
        return lists(found);
    }

    private static Map<String, Object> lists(Map<String, TreeSet<Long>> sorted) {
        Map<String, Object> found = new LinkedHashMap<>();
        sorted.forEach((name, numbers) -> found.put(name, new ArrayList<Object>(numbers)));
        return found;
    }

    private Application() {
    }
}
