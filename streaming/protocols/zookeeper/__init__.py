"""The ZooKeeper protocol of 0.8's high-level consumer."""
