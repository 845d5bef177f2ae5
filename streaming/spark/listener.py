"""The thread that listens: py4j calls it for each batch, and it only hands the message on."""

from __future__ import annotations

import json
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQueryListener

#: A batch's progress in Spark's JSON form; a look that found nothing new is its ``timestamp`` alone.
QueryProgress = dict[str, Any]


def listener(progress: SimpleQueue[QueryProgress]) -> StreamingQueryListener:
    """A listener that puts each batch's progress into the queue; give it to ``spark.streams.addListener``.

    It runs on a thread of py4j's: the queue is all that this thread and the job's have in common.
    """
    from pyspark.sql.streaming import StreamingQueryListener as Listener
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    class BatchListener(Listener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
            """Nothing to hand on."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - same
            progress.put(json.loads(event.progress.json))

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - same
            progress.put({"timestamp": event.timestamp})

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - same
            """The job itself sees the end."""

    return BatchListener()
