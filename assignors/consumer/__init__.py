"""The server-side assignors of the consumer protocol (KIP-848; ``org.apache.kafka.coordinator.group.assignor``).

They answer as the group coordinator of 4.3.1 does, that is through its ``TargetAssignmentBuilder``: subscribed
names without metadata are dropped, ``owned`` is the previous target assignment.
"""
