"""How the job runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from assignors.errors import BadInput
from streaming.monitor.liveness import FORGET_AFTER_MS
from streaming.spark.checkpoint import OnDataLoss
from streaming.spark.session import SessionOptions, jvm_path


class InvalidStreamOptions(BadInput):
    """An option of the stream is out of range."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How the job runs.

    Attributes:
        checkpoint: folder or URL of Spark's checkpoint: offsets and state.
        available_now: process what is there, then stop.
        max_offsets_per_trigger: the most events in one batch; None for no bound.
        batch_seconds: batches that take longer get fewer events (:mod:`streaming.spark.bound`).
        trigger_interval: a Spark interval (``500ms``, ``2 seconds``); None to start the next batch at once.
        buckets: how many state blobs the groups share; None for the checkpoint's own number.
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
    forget_after_ms: int = FORGET_AFTER_MS
    session: SessionOptions = field(default_factory=SessionOptions)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    on_data_loss: OnDataLoss = "stop"

    def __post_init__(self) -> None:
        if self.buckets is not None and self.buckets < 1:
            raise InvalidStreamOptions(f"--buckets {self.buckets}: at least 1")
        if self.session.shuffle_partitions < 1:
            raise InvalidStreamOptions(f"--shuffle-partitions {self.session.shuffle_partitions}: at least 1")
        if self.max_offsets_per_trigger is not None and self.max_offsets_per_trigger < 1:
            raise InvalidStreamOptions(
                f"--max-offsets-per-trigger {self.max_offsets_per_trigger}: at least 1"
            )
        if not self.batch_seconds > 0:
            raise InvalidStreamOptions(f"--batch-seconds {self.batch_seconds:g}: more than 0")

    @property
    def location(self) -> str:
        """The checkpoint as the JVM has to be told."""
        return jvm_path(self.checkpoint)
