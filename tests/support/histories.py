"""Membership logs for tests, handwritten or random, and the output of the monitor's pure functions for these logs.

:class:`Log` builds the events of one group. :class:`Group` is a group whose members join and leave at random, with
the monitor's diffs. :mod:`tests.support.recorded` builds logs of many groups.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import msgspec

from assignors.partitioner import partition_for_key
from streaming.monitor.group import apply
from streaming.monitor.outputs import AssignmentOutput, DiffOutput, ListedMembers, Output
from streaming.monitor.state import GroupState
from streaming.records import codec, events
from streaming.records.diffs import Cause, Diff, LatestAssignment, MemberDiff
from streaming.records.events import Event, EventData, Partitions, TopicMetadata


class Log:
    """Builds the events of one group; the nth event has the id ``n`` and the time ``1000·n`` ms."""

    source = "test"

    def __init__(self, group_id: str = "g") -> None:
        self.group_id = group_id
        self.count = 0

    def now(self) -> int:
        return 1000 * self.count

    def event(self, struct: type[EventData], **fields: Any) -> Event:
        self.count += 1
        data = struct(group_id=self.group_id, timestamp=self.now(), **fields)
        return Event(self.source, str(self.count), data)

    def topics(self, **counts: int) -> Event:
        topics = {name: TopicMetadata(partitions=count) for name, count in counts.items()}
        return self.event(events.PartitionsChanged, topics=topics)

    def join(self, member_id: str, *topics: str, **fields: Any) -> Event:
        return self.event(events.MemberJoined, member_id=member_id, topics=list(topics or ["t"]), **fields)

    def leave(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.MemberLeft, member_id=member_id, **fields)

    def fence(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.MemberFenced, member_id=member_id, **fields)

    def subscribe(self, member_id: str, *topics: str) -> Event:
        return self.event(events.SubscriptionChanged, member_id=member_id, topics=list(topics))

    def beat(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.MemberHeartbeat, member_id=member_id, **fields)

    def acknowledge(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.AssignmentAcknowledged, member_id=member_id, **fields)

    def delete(self, **fields: Any) -> Event:
        return self.event(events.GroupDeleted, **fields)

    def observe(
        self,
        generation: int,
        assigned: dict[str, Partitions],
        *,
        protocol: str | None = "range",
        instances: dict[str, str] | None = None,
        topics: dict[str, list[str]] | None = None,
        evidence: Iterable[events.Evidence] = (),
        epoch: bool = False,
        owned: dict[str, Partitions] | None = None,
        clients: dict[str, tuple[str, str]] | None = None,
        joined_at: int = -1,
    ) -> Event:
        members = [
            events.ObservedMember(
                member_id=member_id,
                topics=(topics or {}).get(member_id, ["t"]),
                assigned=share,
                group_instance_id=(instances or {}).get(member_id),
                owned=(owned or {}).get(member_id, {}),
                owned_generation=joined_at,
                client_id=(clients or {}).get(member_id, (None, None))[0],
                client_host=(clients or {}).get(member_id, (None, None))[1],
            )
            for member_id, share in assigned.items()
        ]
        return self.event(
            events.GroupObserved,
            members=members,
            generation=None if epoch else generation,
            group_epoch=generation if epoch else None,
            group_protocol="consumer" if epoch else "classic",
            protocol=protocol,
            evidence=list(evidence),
        )


def play(log: Iterable[Event], state: GroupState | None = None) -> tuple[GroupState | None, list[Output]]:
    """Return the group's state after the events, and all outputs of the monitor for the events."""
    outputs: list[Output] = []
    for event in log:
        state, written = apply(state, event)
        outputs += written
    return state, outputs


def diffs(outputs: Iterable[Output], listing: ListedMembers = "all") -> list[Diff]:
    """Return the diffs among the outputs, as the stream writes them with the setting ``listing``."""
    written = (output.value(listing) for output in outputs if isinstance(output, DiffOutput))
    return [msgspec.json.decode(value, type=Diff) for value in written]


def assignments(outputs: Iterable[Output]) -> list[AssignmentOutput]:
    return [output for output in outputs if isinstance(output, AssignmentOutput)]


def change(
    owned: Partitions | None = None,
    revoked: Partitions | None = None,
    assigned: Partitions | None = None,
    kept: Partitions | None = None,
    *,
    present: bool | None = True,
    **fields: Any,
) -> MemberDiff:
    """Return one member's changes in a diff; ``fields``: its names and tasks."""
    return MemberDiff(
        owned=owned or {}, revoked=revoked or {}, assigned=assigned or {}, kept=kept or {}, present=present, **fields
    )


def sample(**changes: Any) -> Diff:
    """Return the diff of a first round: by default member ``c1`` of group ``g`` gets the three partitions of ``t``."""
    first = Diff(
        group_id="g",
        protocol="classic",
        assignor="range",
        generation=1,
        group_epoch=None,
        round=1,
        cause=Cause(kind="member.joined", member_ids=["c1"]),
        timestamp=2000,
        members={"c1": change(assigned={"t": [0, 1, 2]})},
        unassigned={},
        moved=0,
        violations=[],
    )
    return msgspec.structs.replace(first, **changes)


def partitions_after(diff: Diff) -> dict[str, Partitions]:
    """Return the members' partitions after the round."""
    after: dict[str, Partitions] = {}
    for member_id, member in diff.members.items():
        after[member_id] = {
            topic: sorted(member.kept.get(topic, []) + member.assigned.get(topic, []))
            for topic in sorted({*member.kept, *member.assigned})
        }
    return after


def check_diff_algebra(diff: Diff) -> None:
    """Check that kept = owned − revoked, revoked ∩ assigned = ∅, and no partition has two owners after the round."""
    owned_partitions: set[tuple[str, int]] = set()
    for member in diff.members.values():
        partition_sets = {
            name: {(topic, p) for topic, ps in getattr(member, name).items() for p in ps}
            for name in ("owned", "revoked", "assigned", "kept")
        }
        assert partition_sets["kept"] == partition_sets["owned"] - partition_sets["revoked"]
        assert partition_sets["revoked"] <= partition_sets["owned"]
        assert not partition_sets["revoked"] & partition_sets["assigned"]
        assert not partition_sets["kept"] & partition_sets["assigned"]
        after = partition_sets["kept"] | partition_sets["assigned"]
        assert not after & owned_partitions
        owned_partitions |= after
        for name in ("owned", "revoked", "assigned", "kept"):
            for partitions in getattr(member, name).values():
                assert partitions
                assert partitions == sorted(set(partitions))


class Group(Log):
    """A group whose members join, leave and crash at random, and the monitor's diffs of the group."""

    def __init__(self, name: str, topics: dict[str, int], seed: int, assignor: str = "cooperative-sticky") -> None:
        super().__init__(name)
        self.random = Random(f"{name}/{seed}")
        self.timestamp = 1_700_000_000_000
        self.joining = {"assignors": [assignor]}
        self.subscription = tuple(topics)
        self.state, self.outputs = play([self.topics(**topics)])

    def now(self) -> int:
        return self.timestamp

    def change(self) -> Iterator[Diff]:
        """Apply one random change to the group; a cooperative rebalance may need further rounds shortly afterwards."""
        self.timestamp += self.random.randrange(5_000, 180_000)
        names = list(self.members)
        kinds = ["join"] * (3 if len(names) < 3 else 1) * (len(names) < 9)
        kind = self.random.choice([*kinds, *["leave", "fence"] * (len(names) > 1)])
        if kind == "join":
            event = self.join(f"{self.group_id}-{self.count}", *self.subscription, **self.joining)
        elif kind == "leave":
            event = self.leave(self.random.choice(names), reason="the member left")
        else:
            event = self.fence(self.random.choice(names), reason="session timeout expired")
        self.state, self.outputs = play([event], self.state)
        for diff in diffs(self.outputs):
            self.timestamp += self.random.randrange(40, 900) * (diff.round > 1)
            yield msgspec.structs.replace(diff, timestamp=self.timestamp)

    def diffs(self, count: int) -> list[Diff]:
        """Return the next ``count`` diffs; drop further diffs of the last rebalance."""
        result: list[Diff] = []
        while len(result) < count:
            result += self.change()
        return result[:count]

    @property
    def members(self) -> dict[str, Partitions]:
        return {} if self.state is None else {member.member_id: member.owned for member in self.state.members}

    def latest(self) -> LatestAssignment:
        """Return the group's newest record of the compacted assignments topic."""
        assignment = assignments(self.outputs)[-1].assignment
        assert assignment is not None
        return assignment


def static_member_handover(log: Log | None = None) -> list[Event]:
    """Return the log of a group whose static member rejoins under a new member id, and then another member leaves."""
    log = Log() if log is None else log
    sticky = {"assignors": ["cooperative-sticky"]}
    return [
        log.topics(t=12),
        *(log.join(f"m{number}", **sticky) for number in range(5)),
        log.join("s1", group_instance_id="static", **sticky),
        log.join("s2", group_instance_id="static", **sticky),
        log.leave("m0"),
    ]


#: A topic in memory: key, value and headers of each partition's records.
Topic = list[list[tuple[bytes, bytes, codec.Headers]]]


def log_by_partition(log: Iterable[Event], partitions: int) -> Topic:
    """Return the log as records by partition of the membership topic."""
    topic: Topic = [[] for _ in range(partitions)]
    for event in log:
        key, value, headers = codec.encode_event(event)
        topic[partition_for_key(key, partitions)].append((key, value, headers))
    return topic
