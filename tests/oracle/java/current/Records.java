package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * The coordinator's own records: {"type", "key", "value", "version"} to bytes, by the generated JSON converters; and
 * {"keyBytes", "valueBytes"} read by the coordinator's serde, or refused.
 */
public final class Records implements Handler {
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final ObjectMapper mapper = new ObjectMapper();

    @Override
    public Object answer(Map<String, Object> request) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        if (request.containsKey("keyBytes")) {
            CoordinatorRecord record = serde.deserialize(bytes(request.get("keyBytes")), bytes(request.get("valueBytes")));
            ApiMessageAndVersion value = record.value();
            answer.put("value", Json.parse(CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(value.message(), value.version()).toString()));
            return answer;
        }
        short type = (short) Json.integer(request.get("type"));
        short version = (short) Json.integer(request.get("version"));
        ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(node(request.get("key")), type);
        ApiMessage value = CoordinatorRecordJsonConverters.readRecordValueFromJson(node(request.get("value")), type, version);
        CoordinatorRecord record = CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
        answer.put("keyBytes", Base64.getEncoder().encodeToString(serde.serializeKey(record)));
        answer.put("valueBytes", Base64.getEncoder().encodeToString(serde.serializeValue(record)));
        return answer;
    }

    private static ByteBuffer bytes(Object text) {
        return ByteBuffer.wrap(Base64.getDecoder().decode((String) text));
    }

    private JsonNode node(Object value) throws Exception {
        return mapper.readTree(Json.write(value));
    }
}
