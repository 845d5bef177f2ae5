"""Kafka Connect's assignors (``org.apache.kafka.connect.runtime.distributed``), 4.3.1.

They place connectors and their tasks on workers. Eager is a function of the group alone;
incremental is stateful: its leader remembers the previous round, so it takes a :class:`LeaderMemory` and gives
the next one, and time is an argument. The work after a round, in the order in which a worker reports it to the
next leader, is in ``model``: the incremental assignor's ties follow that order.
"""

from assignors.connect.model import DEFAULT_MAX_DELAY_MS, ConnectRound, LeaderMemory, Task, Work, WorkChange

__all__ = ["DEFAULT_MAX_DELAY_MS", "ConnectRound", "LeaderMemory", "Task", "Work", "WorkChange"]
