package oracle;

import java.util.Set;
import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.PartitionAssignor$;
import kafka.utils.ZKStringSerializer$;
import org.I0Itec.zkclient.ZkClient;
import scala.Tuple2;
import scala.collection.Iterator;

/** 0.8.2: an assignor answers for the consumer that asks. */
final class Era {
    static final boolean ANSWERS_FOR_ALL = false;
    private final ZkClient client;

    Era(Tree tree) {
        client = new ZkClient(tree.connection(), Integer.MAX_VALUE, ZKStringSerializer$.MODULE$);
    }

    void claim(String assignor, String group, String consumer, Set<String> all, Zookeeper.Claims claims) {
        AssignmentContext context = new AssignmentContext(group, consumer, true, client);
        Iterator<Tuple2<TopicAndPartition, ConsumerThreadId>> decisions =
            PartitionAssignor$.MODULE$.createInstance(assignor).assign(context).iterator();
        while (decisions.hasNext()) {
            Tuple2<TopicAndPartition, ConsumerThreadId> decision = decisions.next();
            claims.add(decision._1().topic(), decision._1().partition(), decision._2().toString());
        }
    }
}
