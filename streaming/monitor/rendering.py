"""What a decided round, and the group after it, look like in the topics: the one place that knows these records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from assignors.diff import size
from streaming.episodes.record import fitting as fitting_episode
from streaming.episodes.state import EpisodeState
from streaming.incidents.record import fitting as fitting_incident
from streaming.incidents.state import Condition
from streaming.monitor.rounds import Changes, Round
from streaming.monitor.state import GroupState, MemberState, ownership
from streaming.wire.codec import encode
from streaming.wire.diffs import Diff, LatestAssignment, MemberDiff, MemberNames
from streaming.wire.events import Event, GroupObserved

#: Members that a diff lists: all; those that changed; or those that changed, of groups of more than
#: :data:`LARGE` members, and all of other groups.
Listing = Literal["auto", "all", "changed"]
#: The diffs of groups with more members list only those that changed, unless the settings say otherwise.
LARGE: Final = 100

_diffs = msgspec.json.Decoder(Diff)


class DiffOutput(Struct, frozen=True, gc=False):
    """A diff to write.

    Attributes:
        id: its ``ce_id``.
        event: the event behind it.
        decided, changes: its round.
        past: the members before the round.
    """

    id: str
    event: Event
    decided: Round
    changes: Changes
    past: Sequence[MemberState] = ()

    def value(self, listing: Listing = "all") -> bytes:
        """Return its JSON."""
        event, decided, changes = self.event, self.decided, self.changes
        epochs = decided.protocol != "classic"
        members, unchanged = changes.members, list[MemberDiff]()
        if listing == "changed" or (listing == "auto" and self.is_large):
            members, unchanged = self._changed()
        diff = Diff(
            group_id=event.data.group_id,
            protocol=decided.protocol,
            assignor=decided.assignor,
            generation=None if epochs else decided.generation,
            group_epoch=decided.generation if epochs else None,
            round=decided.number,
            cause=decided.cause,
            timestamp=event.data.timestamp,
            members=members,
            unassigned=changes.unassigned,
            moved=sum(map(len, changes.moves.values())),
            violations=changes.violations,
            kind=UNSET if decided.kind == "consumer" else decided.kind,
            delay_ms=event.data.delay_ms if isinstance(event.data, GroupObserved) else UNSET,
            expected=decided.expected,
            unchanged=len(unchanged) or UNSET,
            unchanged_partitions=self._held(unchanged) if unchanged else UNSET,
        )
        return encode(diff)

    @property
    def is_large(self) -> bool:
        """Whether the group has more than :data:`LARGE` members, before the round or after it."""
        return max(len(self.past), len(self.decided.members)) > LARGE

    def _changed(self) -> tuple[dict[str, MemberDiff], list[MemberDiff]]:
        """Return the members for whom something changed, and the others."""
        listed: dict[str, MemberDiff] = {}
        unchanged: list[MemberDiff] = []
        known = {member.member_id: member for member in self.past}
        named = self.decided.touched.union(self.decided.cause.member_ids)
        for member_id, change in self.changes.members.items():
            before = known.get(member_id)
            same = (
                before is not None
                and not (change.revoked or change.assigned)
                and change.present
                and member_id not in named
                and before.client_id == change.client_id
                and before.client_host == change.client_host
                and before.instance_id == change.group_instance_id
            )
            if same:
                unchanged.append(change)
            else:
                listed[member_id] = change
        return listed, unchanged

    def _held(self, unchanged: Iterable[MemberDiff]) -> int:
        """Return how many partitions unchanged members own; of a share group, those that no listed member owns."""
        if self.decided.kind != "share":
            return sum(size(member.kept) for member in unchanged)
        listed, _ = self._changed()
        shares = [share for one in listed.values() for share in (one.kept, one.assigned)]
        return len(_places(one.kept for one in unchanged) - _places(shares))

    @property
    def diff(self) -> Diff:
        """The diff with all members, decoded."""
        return _diffs.decode(self.value())


def _places(shares: Iterable[dict[str, list[int]]]) -> set[tuple[str, int]]:
    return {(topic, number) for share in shares for topic, numbers in share.items() for number in numbers}


class AssignmentOutput(Struct, frozen=True, gc=False):
    """The latest assignment of a group to write. Of a batch's only the last is, so it is made when asked for.

    Attributes:
        event: the one behind it.
        state: the group after it; None: the group is gone, which a tombstone says.
    """

    event: Event
    state: GroupState | None

    @property
    def id(self) -> str:
        """Its ``ce_id``."""
        return output_id(self.event, "assignment")

    @property
    def assignment(self) -> LatestAssignment | None:
        """Who owns what; None for a tombstone."""
        state = self.state
        if state is None:
            return None
        epochs = state.protocol != "classic"
        streams = state.kind == "streams"
        return LatestAssignment(
            group_id=self.event.data.group_id,
            protocol=state.protocol,
            assignor=state.assignor,
            generation=None if epochs else state.generation,
            group_epoch=state.generation if epochs else None,
            timestamp=self.event.data.timestamp,
            members=ownership(state.members),
            kind=UNSET if state.kind == "consumer" else state.kind,
            standby=state.standby if streams else UNSET,
            warmup=state.warmup if streams else UNSET,
            names={
                member.member_id: MemberNames(
                    client_id=member.client_id,
                    client_host=member.client_host,
                    group_instance_id=member.instance_id,
                )
                for member in state.members
            },
            racks={one.member_id: one.rack_id for one in state.members if one.rack_id} or UNSET,
        )

    def value(self) -> bytes | None:
        """Return its JSON."""
        assignment = self.assignment
        return None if assignment is None else encode(assignment)


Output = DiffOutput | AssignmentOutput


class EpisodeOutput(NamedTuple):
    """An episode to write, as it is after an event. Of a batch's only the last is, so it is made when asked for.

    Attributes:
        event: the one behind it.
        state: the episode.
        closed: whether it is over.
    """

    event: Event
    state: EpisodeState
    closed: bool

    @property
    def id(self) -> str:
        """Its ``ce_id``."""
        return output_id(self.event, f"episode/{self.state.number}")

    def value(self, limit: int, storm_turns: int) -> bytes:
        """Its JSON, of no more bytes than ``limit``."""
        group_id = self.event.data.group_id
        return fitting_episode(group_id, self.state, limit, closed=self.closed, storm_turns=storm_turns)


class IncidentOutput(NamedTuple):
    """An incident to write, as it is after an event. Of a batch's only the last is, so it is made when asked for.

    Attributes:
        event: the one behind it.
        kind: of the incident.
        known: the incident.
    """

    event: Event
    kind: str
    known: Condition

    @property
    def id(self) -> str:
        """Its ``ce_id``."""
        return output_id(self.event, f"incident/{self.known.number}")

    def value(self, limit: int) -> bytes:
        """Its JSON, of no more bytes than ``limit``."""
        return fitting_incident(self.event.data.group_id, self.kind, self.known, limit)


def output_id(event: Event, part: int | str) -> str:
    """The ``ce_id`` of an output: a pure function of the group, the event behind it and the round.

    128 bits of BLAKE2b over ``group, ce_source, ce_id, part``, each behind its length, in hexadecimal.
    """
    group_id = event.data.group_id
    text = f"{len(group_id)}:{group_id}{len(event.source)}:{event.source}{len(event.id)}:{event.id}{part}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
