"""Episodes and incidents of generated groups, updated with each diff."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.episodes.fold import QUIET_MS
from streaming.episodes.story import partition_list
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident
from streaming.serve.records import TopicRecord
from tests.support.diff_episodes import QuietNote, updates
from tests.support.feed import diff_id, story
from tests.support.incidents import incident


class StoryBuilder:
    """Builds the records of one group: its newest episodes, and an incident for unassigned partitions."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._told: list[tuple[str, Diff] | QuietNote] = []
        self._known = 0
        self._last: Diff
        self._open: Diff | None = None
        self._incidents = 0

    def tell(self, diff: Diff) -> Iterator[Episode | Incident]:
        """Return the records that a diff adds."""
        self._told.append((diff_id(diff), diff))
        self._last = diff
        yield from self._episodes()
        if self._open is not None and not diff.unassigned:
            yield self._incident(closed_at=diff.timestamp)
            self._open = None

    def rest(self, now: int) -> Iterator[Episode | Incident]:
        """Return the records for the end of the quiet time, if it has passed."""
        last = self._last
        if now - last.timestamp <= QUIET_MS or isinstance(self._told[-1], QuietNote):
            return
        self._told.append(QuietNote(diff_id(last)))
        yield from self._episodes()
        # An empty group is quiet.
        if last.unassigned and any(member.present for member in last.members.values()):
            self._incidents += 1
            self._open = last
            yield self._incident()

    def _episodes(self) -> Iterator[Episode]:
        found = list(updates(self.group_id, self._told))
        yield from found[self._known :]
        self._known = len(found)

    def _incident(self, closed_at: int | None = None) -> Incident:
        assert self._open is not None
        said = f"{partition_list(self._open.unassigned)} of {self.group_id}: nobody owns them."
        return incident(
            self.group_id,
            self._incidents,
            kind="partition-without-owner",
            opened_at=self._open.timestamp,
            closed_at=closed_at,
            partitions=self._open.unassigned,
            story=said if closed_at is None else f"{said} Over.",
        )


class Stories:
    """Episodes and incidents of all groups, and their records with offsets."""

    def __init__(self) -> None:
        self._builders: dict[str, StoryBuilder] = {}
        self._offset = 0

    def of(self, diff: Diff) -> list[TopicRecord]:
        """Return the records that a diff adds."""
        builder = self._builders.setdefault(diff.group_id, StoryBuilder(diff.group_id))
        return self._records(builder.tell(diff))

    def rest(self, now: int) -> list[TopicRecord]:
        """Return the records of the groups whose quiet time has passed."""
        return [record for builder in self._builders.values() for record in self._records(builder.rest(now))]

    def _records(self, found: Iterator[Episode | Incident]) -> list[TopicRecord]:
        records = []
        for one in found:
            records.append(story(one, offset=self._offset))
            self._offset += 1
        return records
