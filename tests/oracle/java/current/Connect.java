package oracle;

import java.util.Map;
import org.apache.kafka.connect.runtime.distributed.ConnectHarness;

/** Connect's assignors; the work is done in their package, where their methods can be called. */
public final class Connect implements Handler {
    @Override
    public Object answer(Map<String, Object> request) throws Exception {
        switch ((String) request.get("ask")) {
            case "eager":
                return ConnectHarness.eager(request);
            case "wire":
                return ConnectHarness.wire(request);
            default:
                return ConnectHarness.incremental(request);
        }
    }
}
