"""How the job runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from assignors.errors import BadInput
from streaming.monitor.liveness import FORGET_AFTER_MS
from streaming.spark.archive import NoArchive, check
from streaming.spark.checkpoint import MOST_BUCKETS, OnDataLoss
from streaming.spark.session import SessionOptions, jvm_path
from streaming.spark.state_store import StateStore

#: More tasks than a batch is worth, on any cluster.
_MOST_SHUFFLE_PARTITIONS: Final = 100_000
#: Java's ``long``.
_MOST_OFFSETS: Final = 2**63 - 1
#: Spark's units of an interval, in seconds, by how they begin.
_UNITS: Final = {"us": 1e-6, "micro": 1e-6, "ms": 1e-3, "milli": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_INTERVAL: Final = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})[a-z]*")


class InvalidStreamOptions(BadInput):
    """An option of the stream is out of range."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How the job runs.

    Attributes:
        checkpoint: folder or URL of Spark's checkpoint: offsets and state.
        available_now: process what is there, then stop.
        max_offsets_per_trigger: the most events in one batch; None for no bound.
        batch_seconds: batches that take longer get fewer events (:class:`streaming.spark.pacing.BatchLimit`).
        trigger_interval: a Spark interval (``500ms``, ``2 seconds``); None to start the next batch at once.
        buckets: how many state blobs the groups share; None for the checkpoint's own number.
        state_store: where Spark keeps them; None for the checkpoint's own place.
        forget_after_ms: how long the state keeps a group that is empty.
        session: how Spark itself runs.
        metrics_host: address the driver's metrics are served at.
        metrics_port: their port; None to serve none.
        on_data_loss: what to do when the topic lost records or is a new one: ``stop``, ``continue`` or ``restart``.
    """

    checkpoint: str
    available_now: bool = False
    max_offsets_per_trigger: int | None = None
    batch_seconds: float = 20.0
    trigger_interval: str | None = None
    buckets: int | None = None
    state_store: StateStore | None = None
    forget_after_ms: int = FORGET_AFTER_MS
    session: SessionOptions = field(default_factory=SessionOptions)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    on_data_loss: OnDataLoss = "stop"

    def __post_init__(self) -> None:
        for wrong in (
            *frozen_out_of_range(self.buckets, self.session.shuffle_partitions),
            *_out_of_range("--max-offsets-per-trigger", self.max_offsets_per_trigger, _MOST_OFFSETS),
        ):
            raise InvalidStreamOptions(wrong)
        self._check_archive()
        if not self.batch_seconds > 0:
            raise InvalidStreamOptions(f"--batch-seconds {self.batch_seconds:g}: more than 0")

    def _check_archive(self) -> None:
        archive, master = self.session.archive, self.session.master
        if archive is None:
            return
        if master.startswith("local"):
            raise NoArchive(f"--archive {archive}: is for a cluster's executors, and --master is {master}")
        check(archive)

    @property
    def pause_seconds(self) -> float:
        """What an event waits at most for the next batch to begin, by ``trigger_interval``."""
        parts = _INTERVAL.findall((self.trigger_interval or "").lower())
        return sum(float(number) * _UNITS[unit] for number, unit in parts)

    @property
    def location(self) -> str:
        """The checkpoint as the JVM has to be told."""
        return jvm_path(self.checkpoint)


def frozen_out_of_range(buckets: int | None, shuffle_partitions: int | None) -> Iterator[str]:
    """What is wrong with the numbers that a checkpoint keeps; None is never wrong."""
    yield from _out_of_range("--buckets", buckets, MOST_BUCKETS)
    yield from _out_of_range("--shuffle-partitions", shuffle_partitions, _MOST_SHUFFLE_PARTITIONS)


def _out_of_range(option: str, number: int | None, most: int) -> Iterator[str]:
    if number is not None and number < 1:
        yield f"{option} {number}: at least 1"
    elif number is not None and number > most:
        yield f"{option} {number}: at most {most}"
