package oracle;

import java.util.Set;
import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.PartitionAssignor$;
import kafka.utils.Pool;
import kafka.utils.ZKStringSerializer$;
import kafka.utils.ZkUtils;
import org.I0Itec.zkclient.ZkClient;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.mutable.Map;

/** 0.10.2 to 1.1: an assignor answers for all consumers of the asking one's topics; each takes its own part. */
final class Era {
    static final boolean ANSWERS_FOR_ALL = true;
    private final ZkUtils utils;

    Era(Tree tree) {
        ZkClient client = new ZkClient(tree.connection(), Integer.MAX_VALUE, ZKStringSerializer$.MODULE$);
        utils = new ZkUtils(client, null, false);
    }

    void claim(String assignor, String group, String asking, Set<String> all, Zookeeper.Claims claims) {
        question(assignor, group, asking, all).claim(claims);
    }

    /** What a consumer has read from ZooKeeper; {@code all} are the consumers that take something of the answer. */
    Question question(String assignor, String group, String asking, Set<String> all) {
        return new Question(assignor, new AssignmentContext(group, asking, true, utils), all);
    }

    record Question(String assignor, AssignmentContext context, Set<String> all) {
        Pool<String, Map<TopicAndPartition, ConsumerThreadId>> answer() {
            return PartitionAssignor$.MODULE$.createInstance(assignor).assign(context);
        }

        void claim(Zookeeper.Claims claims) {
            Pool<String, Map<TopicAndPartition, ConsumerThreadId>> answers = answer();
            for (String consumer : all) {
                Iterator<Tuple2<TopicAndPartition, ConsumerThreadId>> decisions = answers.get(consumer).iterator();
                while (decisions.hasNext()) {
                    Tuple2<TopicAndPartition, ConsumerThreadId> decision = decisions.next();
                    claims.add(decision._1().topic(), decision._1().partition(), decision._2().toString());
                }
            }
        }
    }
}
