package oracle;

import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.I0Itec.zkclient.IZkConnection;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** Nodes in memory behind zkclient's connection interface, whichever release's that is: it has grown methods. */
final class Tree {
    private final Map<String, byte[]> nodes = new LinkedHashMap<>();

    void clear() {
        nodes.clear();
    }

    void put(String path, String data) {
        nodes.put(path, data.getBytes(StandardCharsets.UTF_8));
    }

    IZkConnection connection() {
        return (IZkConnection) Proxy.newProxyInstance(
            Tree.class.getClassLoader(), new Class<?>[] {IZkConnection.class}, (self, method, args) -> {
                switch (method.getName()) {
                    case "connect":
                        connected((Watcher) args[0]);
                        return null;
                    case "close":
                        return null;
                    case "exists":
                        return nodes.containsKey(args[0]);
                    case "getChildren":
                        return children((String) args[0]);
                    case "readData":
                        return read((String) args[0]);
                    case "getZookeeperState":
                        return ZooKeeper.States.CONNECTED;
                    case "getServers":
                        return "memory";
                    default:
                        throw new UnsupportedOperationException(method.toString());
                }
            });
    }

    /** zkclient takes the thread that tells it of the connection for ZooKeeper's own, where it must not wait. */
    private static void connected(Watcher watcher) {
        Thread events = new Thread(() -> watcher.process(new WatchedEvent(
            Watcher.Event.EventType.None, Watcher.Event.KeeperState.SyncConnected, null)));
        events.setDaemon(true);
        events.start();
    }

    private List<String> children(String path) {
        List<String> names = new ArrayList<>();
        for (String node : nodes.keySet()) {
            if (node.startsWith(path + "/")) {
                names.add(node.substring(path.length() + 1));
            }
        }
        return names;
    }

    private byte[] read(String path) throws KeeperException {
        byte[] data = nodes.get(path);
        if (data == null) {
            throw KeeperException.create(KeeperException.Code.NONODE, path);
        }
        return data;
    }
}
