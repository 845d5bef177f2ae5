"""Kafka Connect's assignors (``org.apache.kafka.connect.runtime.distributed``), 4.3.1.

They place connectors and their tasks on workers. ``eager`` is a function of the group alone;
``incremental`` is stateful: its leader remembers the previous round, so it takes a :class:`LeaderMemory` and gives
the next one, and time is an argument. What a worker runs after a round, and in which order it reports that to the
next leader, is in ``worker``: the incremental assignor's ties follow that order.
"""

from assignors.connect.model import DEFAULT_MAX_DELAY_MS, ConnectRound, LeaderMemory, Task, Work, WorkChange

__all__ = ["DEFAULT_MAX_DELAY_MS", "ConnectRound", "LeaderMemory", "Task", "Work", "WorkChange"]
