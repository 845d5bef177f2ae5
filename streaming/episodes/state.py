"""Episode state: what is kept of a group's last episode between two rounds.

It is written into the checkpoint as msgpack arrays with the group's own state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct, field

from streaming.episodes.cost import Progress
from streaming.episodes.downtime import Outages
from streaming.episodes.members import MemberHistory
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Rebalancing, Waiting
from streaming.records.events import Evidence


class EpisodeState(Struct, array_like=True, gc=False):
    """A group's last episode, open or not. A function of the log alone.

    Only :func:`~streaming.episodes.fold.take` changes it in place.

    Attributes:
        number: counts the group's episodes from 1.
        open: whether the next round may belong to it.
        stuck: nothing came for the quiet time, and something is still waited for.
        opened_at, last_at: times of its first and of its last note, ms.
        mark: id of the last note, which ``group.quiet`` refers to.
        protocol, assignor, kind: of the group now.
        rounds: ids of its newest diffs, a line each: one text is copied faster than a list of many.
        round_count: number of all its diffs.
        rebalances: number of its rebalances.
        started_with, started_by: protocol and assignor before it; None for a new group.
        before: number of members before it; None until the first view of a group that was there before.
        after: number of members now.
        away: the most members that were missing at a time.
        present: histories of members that joined, returned or requested a rebalance, by member id.
        absent: histories of members that departed.
        moved: partitions that moved, by topic; ``again``: those that moved more than once.
        causes: number of rebalances by the kind of their cause.
        evidence: of the causes, each once.
        bounces: static members that rejoined without a rebalance.
        remade: connectors or tasks were created or deleted.
        deleted: the group was deleted.
        waiting: partitions without an owner after the last round.
        awaited: what else the last view showed to be waited for.
        called: identities of the members that are waited for.
        began: when the group began to wait, ms; 0: it does not, −1: Connect's delay sets how long.
        took: how long the group's last waits took, ms, also before this episode.
        outages: partitions without a consumer; None: none is known.
        departures: how often members departed.
        unprovoked: number of rebalances without a membership change that nothing else explains.
        first_seen: generation of the group's first observation, if the episode began with it; else 0.
        may_be_new: that generation is so low that the group may have started right before.
        rebalancing: the rebalance in progress; ``rebalancing_at``: time of its last event, ms.
        lasted: how long the group's last rebalances took, ms, also before this episode.
        topics: ``added`` or ``deleted``, if that is all that new partition counts did; ``""``: it is not.
        zone: the rack whose members all departed, and nobody else did; ``""``: none.
        racks: of the members that departed; ``""``: unknown.
        progress: samples of the group's offsets; None: there are none.

    Of an episode that is over only what the next one needs is kept.
    """

    number: int
    open: bool = False
    stuck: bool = False
    opened_at: int = 0
    last_at: int = 0
    mark: str = ""
    protocol: str = "classic"
    assignor: str | None = None
    kind: str = "consumer"
    rounds: str = ""
    round_count: int = 0
    rebalances: int = 0
    started_with: str | None = None
    started_by: str | None = None
    before: int | None = None
    after: int = 0
    away: int = 0
    present: dict[str, MemberHistory] = field(default_factory=dict)
    absent: tuple[MemberHistory, ...] = ()
    moved: dict[str, set[int]] = field(default_factory=dict)
    again: dict[str, set[int]] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    bounces: int = 0
    remade: bool = False
    deleted: bool = False
    waiting: tuple[Waiting, ...] = ()
    awaited: tuple[Waiting, ...] = ()
    called: dict[str, MemberNames] = field(default_factory=dict)
    began: int = 0
    took: tuple[int, ...] = ()
    outages: Outages | None = None
    departures: int = 0
    unprovoked: int = 0
    first_seen: int = 0
    may_be_new: bool = False
    rebalancing: Rebalancing | None = None
    rebalancing_at: int = 0
    lasted: tuple[int, ...] = ()
    topics: str = ""
    zone: str = ""
    progress: Progress | None = None
    racks: set[str] = field(default_factory=set)

    @property
    def histories(self) -> Iterator[MemberHistory]:
        """The histories of all members, those of present members first."""
        return chain(self.present.values(), self.absent)
