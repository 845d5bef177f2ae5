"""What is kept of a group between two of its rounds, for its episodes.

Written into the checkpoint as msgpack arrays with the group's own state: fields are only ever added, at the end and
with a default.
"""

from __future__ import annotations

from msgspec import Struct, field, structs

from streaming.episodes import downtime
from streaming.episodes.downtime import Outages
from streaming.episodes.members import MemberHistory, MemberIdentity, Tracks
from streaming.wire.episodes import Waiting
from streaming.wire.events import Evidence


class EpisodeState(Struct, array_like=True, gc=False):
    """A group's last episode, open or not. A function of the log alone.

    It is changed in place by :func:`~streaming.episodes.fold.take` alone, by whom it belongs to.

    Attributes:
        number: it is the group's so many-th.
        open: whether a round that comes now may belong to it.
        stuck: it is quiet, and something is still waited for.
        opened_at, last_at: times of its first and of its last note, ms.
        mark: id of the last note: what ``group.quiet`` says that it is about.
        protocol, assignor, kind: of the group now.
        rounds: ids of its diffs, the last ones, a line each: one text is copied faster than a list of many.
        round_count: of all its diffs.
        rebalances: how many rebalances they are.
        started_with, started_by: protocol and assignor when it began; None: not known, as the group was new.
        before: how many members the group had when it began; None: not known, as it was seen the first time.
        after: how many it has.
        away: the most members that were away at one time.
        there: who came, or went and came back, by member id; ``missing``: who is gone.
        moved: partitions that moved, by topic; ``again``: those that did so more than once.
        causes: rebalances by the kind of their cause.
        evidence: of the causes, each once.
        bounces: static members that came back without a rebalance.
        remade: connectors or tasks were made, or are no more.
        deleted: the group was deleted.
        waiting: partitions without an owner, as the last round left them.
        awaited: what else the last view showed to be waited for.
        called: the names of its members.
        began: when the group began to wait, ms; 0: it does not, −1: how long it takes is set by Connect's delay.
        took: how long the group's last waits took, ms, also before this episode.
        outages: partitions without a consumer; None: none is known.

    Of an episode that is over only what the next one asks for is kept.
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
    there: dict[str, MemberHistory] = field(default_factory=dict)
    missing: tuple[MemberHistory, ...] = ()
    moved: dict[str, set[int]] = field(default_factory=dict)
    again: dict[str, set[int]] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    bounces: int = 0
    remade: bool = False
    deleted: bool = False
    waiting: tuple[Waiting, ...] = ()
    awaited: tuple[Waiting, ...] = ()
    called: dict[str, MemberIdentity] = field(default_factory=dict)
    began: int = 0
    took: tuple[int, ...] = ()
    outages: Outages | None = None


def copied(state: EpisodeState) -> EpisodeState:
    """The same with containers of its own."""
    return structs.replace(
        state,
        there=dict(state.there),
        moved={topic: set(partitions) for topic, partitions in state.moved.items()},
        again={topic: set(partitions) for topic, partitions in state.again.items()},
        causes=dict(state.causes),
        called=dict(state.called),
        outages=downtime.copied(state.outages),
    )


def tracks(state: EpisodeState) -> Tracks:
    """Who came and went."""
    return Tracks(state.there, state.missing)


def rests_at(state: EpisodeState, quiet_ms: int) -> int:
    """When the episode is over if nothing comes, ms: the quiet time after its last note.

    A wait that ends by itself is a part of it, so the quiet time begins with its end.
    """
    if not state.waiting:
        return state.last_at + quiet_ms
    until = max((one.until for one in state.waiting if one.until is not None), default=0)
    return max(state.last_at, until) + quiet_ms


def over(state: EpisodeState) -> EpisodeState:
    """What is kept of an episode that is over."""
    return EpisodeState(
        number=state.number,
        last_at=state.last_at,
        mark=state.mark,
        protocol=state.protocol,
        assignor=state.assignor,
        kind=state.kind,
        after=state.after,
        took=state.took,
        outages=downtime.over(state.outages),
    )
