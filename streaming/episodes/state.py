"""State of a group's last episode, as the checkpoint has it between two rebalance rounds.

The state is written into the checkpoint as msgpack arrays, together with the state of the group.
"""

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct, field

from streaming.episodes.cost import OffsetSamples
from streaming.episodes.downtime import Outages
from streaming.episodes.members import MemberHistory
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Rebalancing, Waiting
from streaming.records.events import Evidence


class EpisodeState(Struct, array_like=True, gc=False):
    """A group's last episode, open or ended, computed from the membership log alone.

    Only :func:`~streaming.episodes.fold.take` changes it in place. Once the episode has ended, only the fields that the
    next episode needs are kept.

    Attributes:
        number: number of the episode in its group, from 1.
        open: True while the next round may belong to this episode.
        stuck: the quiet time passed while the group was still waiting.
        opened_at, last_at: times of the episode's first and last note, ms.
        last_note_id: id of the last note, to which ``group.quiet`` refers.
        rounds: ids of the newest diffs, one per line: a string is copied faster than a list; ``round_count``: all.
        protocol_before, assignor_before: protocol and assignor before the episode; None for a new group.
        before: number of members before the episode; None until the first snapshot of a group that existed before.
        after: number of members now; ``away``: the largest number of members missing at once.
        present: histories by id of members that joined, returned or requested a rebalance; ``absent``: departed ones.
        moved: partitions that moved, by topic; ``twice_moved_partitions``: those that moved more than once.
        causes: number of rebalances by the kind of their cause; ``bounces``: number of static rejoins without one.
        changes_tasks: connectors or tasks were created or deleted.
        waiting: partitions without an owner after the last round; ``awaited``: other waits in the last snapshot.
        awaited_names: identities of awaited members.
        waiting_since: when the wait began, ms; 0: the group does not wait, −1: it waits for Connect's scheduled delay.
        wait_durations_ms: durations of the group's last waits, also before this episode.
        outages: partitions without a consumer; None: none is known.
        departures: number of departures of members.
        unexplained: number of rebalances without a membership change or another explanation.
        first_seen: generation of the group's first snapshot, if the episode began with it; else 0.
        may_be_new: True if that generation is so low that the group may have started right before.
        rebalancing: the rebalance in progress; ``rebalancing_at``: time of its last event, ms.
        rebalance_durations_ms: durations of the group's last rebalances, also before this episode.
        topics: ``added`` or ``deleted``, if new partition counts only added or deleted topics; else ``""``.
        racks: racks of departed members, sorted; ``""``: unknown. ``lost_rack``: a single rack that lost all members.
        progress: samples of the group's offsets; None: there are none.
    """

    number: int
    open: bool = False
    stuck: bool = False
    opened_at: int = 0
    last_at: int = 0
    last_note_id: str = ""
    protocol: str = "classic"
    assignor: str | None = None
    kind: str = "consumer"
    rounds: str = ""
    round_count: int = 0
    rebalances: int = 0
    protocol_before: str | None = None
    assignor_before: str | None = None
    before: int | None = None
    after: int = 0
    away: int = 0
    present: dict[str, MemberHistory] = field(default_factory=dict)
    absent: tuple[MemberHistory, ...] = ()
    moved: dict[str, set[int]] = field(default_factory=dict)
    twice_moved_partitions: dict[str, set[int]] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    bounces: int = 0
    changes_tasks: bool = False
    deleted: bool = False
    waiting: tuple[Waiting, ...] = ()
    awaited: tuple[Waiting, ...] = ()
    awaited_names: dict[str, MemberNames] = field(default_factory=dict)
    waiting_since: int = 0
    wait_durations_ms: tuple[int, ...] = ()
    outages: Outages | None = None
    departures: int = 0
    unexplained: int = 0
    first_seen: int = 0
    may_be_new: bool = False
    rebalancing: Rebalancing | None = None
    rebalancing_at: int = 0
    rebalance_durations_ms: tuple[int, ...] = ()
    topics: str = ""
    lost_rack: str = ""
    progress: OffsetSamples | None = None
    racks: tuple[str, ...] = ()

    @property
    def histories(self) -> Iterator[MemberHistory]:
        """Yield the histories of an episode's members: first of present members, then of absent members."""
        return chain(self.present.values(), self.absent)
