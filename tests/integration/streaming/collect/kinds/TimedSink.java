import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * A sink connector whose tasks write what they process, and when, into new files of the folder "marks": a line for each
 * partition of a batch with the time, the topic, the partition, the number of its assignments to this task so far, the
 * first offset, and the offset after the last one. A line with the offsets -1 marks an assignment. Beside it, a file
 * ending in ".held" has the numbers of the task's partitions. Names begin with the worker's property "timed.sink".
 */
public final class TimedSink extends SinkConnector {
    private Map<String, String> config;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> properties) {
        config = properties;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return SinkOfTimes.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int number = 0; number < most; number++) {
            configs.add(config);
        }
        return configs;
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    /** One task. */
    public static final class SinkOfTimes extends SinkTask {
        private final Map<TopicPartition, Integer> times = new HashMap<>();
        private final TreeSet<Integer> held = new TreeSet<>();
        private Path folder;
        private String name;
        private OutputStream marks;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> properties) {
            folder = Path.of(properties.get("marks"));
            name = System.getProperty("timed.sink") + "-" + UUID.randomUUID();
            try {
                marks = new FileOutputStream(folder.resolve(name + ".marks").toFile());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            StringBuilder lines = new StringBuilder();
            for (TopicPartition partition : partitions) {
                times.merge(partition, 1, Integer::sum);
                held.add(partition.partition());
                lines.append(line(partition, -1, -1));
            }
            write(lines);
            writeHeld();
        }

        @Override
        public void close(Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> held.remove(partition.partition()));
            writeHeld();
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            Map<TopicPartition, long[]> batches = new LinkedHashMap<>();
            for (SinkRecord record : records) {
                TopicPartition partition = new TopicPartition(record.topic(), record.kafkaPartition());
                long offset = record.kafkaOffset();
                batches.computeIfAbsent(partition, key -> new long[] {offset, 0})[1] = offset + 1;
            }
            StringBuilder lines = new StringBuilder();
            batches.forEach((partition, batch) -> lines.append(line(partition, batch[0], batch[1])));
            write(lines);
        }

        @Override
        public void stop() {
            held.clear();
            writeHeld();
        }

        private String line(TopicPartition partition, long first, long next) {
            return System.currentTimeMillis() + " " + partition.topic() + " " + partition.partition() + " "
                + times.get(partition) + " " + first + " " + next + "\n";
        }

        private void write(StringBuilder lines) {
            try {
                marks.write(lines.toString().getBytes(StandardCharsets.UTF_8));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        private void writeHeld() {
            try {
                Files.writeString(folder.resolve(name + ".held"), held.toString());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
