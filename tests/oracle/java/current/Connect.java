package oracle;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.ExponentialBackoff;
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
            case "backoff":
                return backoff(Json.integer(request.get("maxDelay")));
            default:
                return ConnectHarness.incremental(request);
        }
    }

    /** The first waits of consecutive revoking rounds, as IncrementalCooperativeAssignor sets its back-off up. */
    private static List<Long> backoff(int maxDelay) {
        ExponentialBackoff backoff = new ExponentialBackoff(maxDelay == 0 ? 0 : 1, 40, maxDelay, 0);
        List<Long> waits = new ArrayList<>();
        for (int attempt = 1; attempt <= 8; attempt++) {
            waits.add(backoff.backoff(attempt));
        }
        return waits;
    }
}
