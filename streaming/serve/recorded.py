"""The page of a recording, without a cluster: a source whose records are the outputs of the recording's replay."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, cast

from assignors.errors import BadInput
from streaming.freshness import Freshness
from streaming.recording.file import Recording
from streaming.records.codec import ce_attributes
from streaming.records.events import Event
from streaming.serve.history import Retention
from streaming.serve.records import TopicRecord
from streaming.serve.server import FeedServer, ServeOptions
from streaming.serve.source import BATCH, Source
from streaming.serve.stories import Sort

#: In a recording, a topic's name is its role.
_STORIES: Final[dict[str, Sort]] = {"episodes": "episode", "incidents": "incident"}
#: Retention without limits, as a recording may have any age and size.
_ALL: Final = Retention(2**62, 2**50)


class RecordedSource:
    """Returns the outputs of a replay once, from its beginning."""

    stale = None

    def __init__(self, recording: Recording) -> None:
        self._records = self._replayed(recording)
        self.caught_up = False
        self.ids = dict.fromkeys(("diffs", "assignments", *_STORIES), "recording")

    def open(self, positions: Mapping[tuple[str, int], int], ids: Mapping[str, str]) -> None:
        """Do nothing, as the history of a recording is always empty at the start."""

    def poll(self, timeout: float) -> list[TopicRecord]:
        """Return the next records; an empty list at the end."""
        del timeout
        batch = list(islice(self._records, BATCH))
        self.caught_up = not batch
        return batch

    @property
    def whole(self) -> frozenset[Sort]:
        """The kinds of stories that are read completely."""
        return frozenset(_STORIES.values() if self.caught_up else ())

    @property
    def lag(self) -> int:
        """The number of unread records: 1 until all records are read, then 0."""
        return 0 if self.caught_up else 1

    def publish(self, event: Event) -> None:
        """Refuse the event, as a recording does not change."""
        raise BadInput(f"{event.type}: a recording takes no events")

    def close(self) -> None:
        """Do nothing, as no resource is open."""

    def _replayed(self, recording: Recording) -> Iterator[TopicRecord]:
        offsets: Counter[str] = Counter()
        for outputs in recording.steps():
            for write in (output.write for output in outputs):
                ce = ce_attributes(write.headers)
                offsets[write.topic] += 1
                place = write.topic, 0, offsets[write.topic] - 1
                yield TopicRecord(*place, write.key, write.value, ce.get("id"), type=ce.get("type", ""))


def serve_recording(recording: Recording, host: str, port: int, started: Callable[[FeedServer], None]) -> None:
    """Serve the page of a recording until SIGTERM or SIGINT; ``started`` is called with the server once it listens.

    Raises:
        AddressUnusable: the port is taken.
    """
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history.sqlite"
        options = ServeOptions(history, "diffs", _STORIES, host=host, port=port, limits=_ALL)
        source = cast("Source", RecordedSource(recording))  # RecordedSource has all members that the server uses
        server = FeedServer(source, options, cluster_id="recording", freshness=lambda _: Freshness(), beat=lambda: None)
        started(server)
        server.run()
