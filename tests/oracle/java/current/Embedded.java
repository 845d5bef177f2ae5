package oracle;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/** ConsumerProtocol's reading of a member's subscription or assignment, as the leader or the member reads it. */
public final class Embedded implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        ByteBuffer data = ByteBuffer.wrap(Base64.getDecoder().decode((String) request.get("data")));
        Map<String, Object> answer = new LinkedHashMap<>();
        if (request.get("what").equals("assignment")) {
            answer.put("assigned", pairs(ConsumerProtocol.deserializeAssignment(data).partitions()));
            return answer;
        }
        Subscription said = ConsumerProtocol.deserializeSubscription(data);
        answer.put("topics", said.topics());
        answer.put("owned", pairs(said.ownedPartitions()));
        answer.put("generation", said.generationId().orElse(-1));
        answer.put("rack", said.rackId().orElse(null));
        return answer;
    }

    private static List<Object> pairs(List<TopicPartition> partitions) {
        List<Object> found = new ArrayList<>();
        for (TopicPartition one : partitions) {
            found.add(List.of(one.topic(), one.partition()));
        }
        return found;
    }
}
