package oracle;

import java.util.Map;
import org.apache.kafka.admin.AdminHarness;

/** AdminUtils.assignReplicasToBrokers; the work is done in its package, where its random numbers can be seeded. */
public final class Admin implements Handler {
    @Override
    public Object answer(Map<String, Object> request) {
        return AdminHarness.answer(request);
    }
}
