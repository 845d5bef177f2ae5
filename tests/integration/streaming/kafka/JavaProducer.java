import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends one record a key (a line of standard input, hexadecimal) with the Java client's own partitioner; prints each partition. */
public class JavaProducer {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        try (KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
                Scanner keys = new Scanner(System.in, StandardCharsets.UTF_8)) {
            while (keys.hasNextLine()) {
                byte[] key = java.util.HexFormat.of().parseHex(keys.nextLine());
                System.out.println(producer.send(new ProducerRecord<>(arguments[1], key, key)).get().partition());
            }
        }
    }
}
