"""Kafka Connect's assignors (``org.apache.kafka.connect.runtime.distributed``), 4.3.1."""

from assignors.connect.model import ConnectRound, LeaderMemory, Task, Work, WorkChange

__all__ = ["ConnectRound", "LeaderMemory", "Task", "Work", "WorkChange"]
