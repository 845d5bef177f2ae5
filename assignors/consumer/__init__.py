"""The server-side assignors of the consumer protocol (KIP-848; ``org.apache.kafka.coordinator.group.assignor``).

Results are those of the group coordinator of 4.3.1, with its ``TargetAssignmentBuilder``: subscribed topics without
metadata are dropped, and ``owned`` is the previous target assignment.
"""
