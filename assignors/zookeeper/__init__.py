"""The assignors of the old consumer (``kafka.consumer.PartitionAssignor``, 0.8.2 to 1.1), over consumer threads.

Each consumer computed the whole group's answer from ZooKeeper and took its own share; here it is the whole.
"""
