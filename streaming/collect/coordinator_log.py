"""Why generations began: the lines a group coordinator logs, read one by one. No file, no clock.

Reasons come first, the generation (or epoch) they lead to afterwards: ``Preparing to rebalance group G in state
S with old generation N (reason: R)`` … ``Stabilized group G generation N+1``; for consumer groups ``[GroupId G]
Member M left the consumer group`` … ``[GroupId G] Bumped group epoch to N``. Lines as in 4.3.1
(GroupMetadataManager); those of the Scala coordinator before 4.0 differ by a partition in brackets only.

In share and streams groups a leave or a fence raises the epoch by one without a line that says so.

Clients choose what stands in these lines. Ids of more than 500 characters are not looked for: patterns without a
bound would take half a minute for one line of 32 kB that was made for it. Nor are numbers of more than ten digits,
which is what Kafka's INT32 has: Python refuses to read those of thousands.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from streaming.collect.join_phases import JoinPhases
from streaming.wire.events import COORDINATOR_MOVED, Evidence

SOURCE = "coordinator-log"
#: Generations remembered: a line stays until its generation's record is read, moments later.
_REMEMBERED = 50_000
#: Lines between two generations of one group that are kept.
_PENDING = 1000

_JOINED, _LEFT, _FENCED = "member.joined", "member.left", "member.fenced"
_PARTITIONS_CHANGED = "topic.partitions_changed"

#: Generations in a row that nobody saw and whose lines are told of with the next one.
_SKIPPED = 100

#: Kafka's usual log layout ends with the logger's name.
_LOGGER = re.compile(r" \([\w.$]+\)$")
_PREPARING = re.compile(
    r"Preparing to rebalance group (?P<group>.{1,500}) in state \w+ with old generation (?P<old>-?[0-9]{1,10})"
    r"(?: \([^()]*\))? \(reason: (?P<reason>.*)\)\.?$"
)
#: How lines about groups with epochs begin.
_GROUP = r"\[GroupId (?P<group>.{1,500}?)\](?:\[MemberId [^\]\s]{1,500}\])? "
_STABILIZED = re.compile(
    r"Stabilized group (?P<group>.{1,500}) generation (?P<number>[0-9]{1,10})(?: \([^()]*\))? with \d+ members"
)
#: The generation, or epoch, that the lines before it led to.
_NUMBERED = (
    _STABILIZED,
    re.compile(
        r"Group (?P<group>.{1,500}) with generation (?P<number>[0-9]{1,10})(?: \([^()]*\))? is now empty"
    ),
    re.compile(_GROUP + r"Bumped (?:streams )?group epoch to (?P<number>[0-9]{1,10})\b"),
)

_ASSIGNED = re.compile(
    r"Assignment received from leader \S{1,500} for group (?P<group>.{1,500}) "
    r"for generation (?P<number>[0-9]{1,10})\b"
)

#: How lines about members of groups with epochs begin.
_MEMBER_OF = (
    _GROUP + r"(?:(?:Static|Streams) m|M)ember (?P<member>\S{1,500})(?: with instance id \S{1,500})? "
)
#: Lines that only groups have in which a member's end raises the epoch silently.
_SILENT = re.compile(r"(?:joins|left) the (?:share|streams) group|\] Streams member ")
#: Lines without a generation → the kind they stand for. Groups: group, member (one id or several), why.
_LINES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"Member (?P<member>\S{1,500}) in group (?P<group>.{1,500}) (?P<why>has failed, .*)"),
        _FENCED,
    ),
    (
        re.compile(
            r"\[Group (?P<group>.{1,500}?)\] (?:Static m|M)ember (?P<member>\S{1,500}) .{,1000}?"
            r"left group through (?P<why>explicit `LeaveGroup` request.*)"
        ),
        _LEFT,
    ),
    (
        re.compile(
            r"Group (?P<group>.{1,500}) removed dynamic members who haven't joined: "
            r"(?:Set)?[\[(](?P<member>.*?)[\])]"
        ),
        _FENCED,
    ),
    (re.compile(_MEMBER_OF + r"(?P<why>joins the (?:consumer|share) group.*)"), _JOINED),
    (
        re.compile(
            r"\[GroupId (?P<group>.{1,500}?)\]\[MemberId (?P<member>[^\]\s]{1,500})\] "
            r"(?P<why>Member joins the streams group.*)"
        ),
        _JOINED,
    ),
    (re.compile(_MEMBER_OF + r"(?P<why>fenced from the group because.*)"), _FENCED),
    (re.compile(_MEMBER_OF + r"(?P<why>(?:has )?left the (?:(?:consumer|share|streams) )?group.*)"), _LEFT),
)

#: A reason of a classic rebalance → kind, and where the member ids stand in it.
_REASONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Adding new member (?P<member>\S{1,500}) with group instance id"), _JOINED),
    (re.compile(r"removing member (?P<member>\S{1,500}) on heartbeat expiration"), _FENCED),
    (re.compile(r"explicit `LeaveGroup` request for \((?P<member>.*)\) members"), _LEFT),
    (re.compile(r"Removing .{,100}?[\[(](?P<member>.*?)[\])] on pending sync request expiration"), _FENCED),
    (
        re.compile(r"Leader (?P<member>\S{1,500}) re-joining .*cached metadata has changed"),
        _PARTITIONS_CHANGED,
    ),
)
#: A coordinator that has just become the group's. What members were about to do when it moved is void.
_LOADED = re.compile(
    r"Loaded (?:classic|consumer|share|streams) group (?P<group>.{1,500}) with [0-9]{1,10} members"
)
#: What Java's clients say when they join again because the one before did not answer.
_UNANSWERED = re.compile(
    r"rebalance failed due to "
    r"(?:NotCoordinator|CoordinatorNotAvailable|CoordinatorLoadInProgress|Disconnect)Exception"
)
_MEMBER = re.compile(r"(?:Updating metadata for (?:static )?member|Leader) (\S+)")


class CoordinatorLog:
    """Remembers what each generation's lines said. Feed it lines in order; ask for a generation."""

    def __init__(self) -> None:
        self._pending: dict[str, list[Evidence]] = {}
        self._known: OrderedDict[tuple[str, int], list[Evidence]] = OrderedDict()
        #: Groups whose coordinator is another one since their last generation.
        self._loaded: set[str] = set()
        #: Of share and streams groups: the last epoch that was told or followed silently, None before the first.
        self._epochs: dict[str, int | None] = {}
        self.phases = JoinPhases()

    def feed(self, line: str) -> None:
        """One line; lines that say nothing of groups are passed over."""
        if "group" not in line and "Group" not in line:
            return
        said = _LOGGER.sub("", line.rstrip())
        match = _PREPARING.search(said)
        if match is not None:
            reason = _classic_reason(match["reason"], moved=match["group"] in self._loaded)
            self._note(match["group"], reason)
            self.phases.prepared(match["group"], said, asked=reason.kind in (_JOINED, _LEFT, _FENCED))
            # Bound at once as well: the line of the new generation may be out of our sight, the record may not.
            self._bind(match["group"], int(match["old"]) + 1, keep=True)
            return
        if self._load(said):
            return
        for pattern in _NUMBERED:
            match = pattern.search(said)
            if match is not None:
                self._loaded.discard(match["group"])
                if match["group"] in self._epochs:
                    self._epochs[match["group"]] = int(match["number"])
                if pattern is _STABILIZED:
                    self.phases.stabilized(match["group"], said)
                self._bind(match["group"], int(match["number"]))
                return
        match = _ASSIGNED.search(said)
        if match is not None:
            self.phases.assigned(match["group"], int(match["number"]), said)
            return
        for pattern, kind in _LINES:
            match = pattern.search(said)
            if match is not None:
                why = match.groupdict().get("why") or "did not join again in time"
                self._note(match["group"], _evidence(why, match["member"], kind))
                if _SILENT.search(said) or match["group"] in self._epochs:
                    self._follow_silently(match["group"], ended=kind != _JOINED)
                return

    def evidence(self, group_id: str, number: int, after: int | None = None) -> list[Evidence]:
        """What was logged about the changes that led to this generation or epoch, from the one ``after`` on."""
        found = list(self._known.get((group_id, number), ()))
        skipped = range(max(after + 1, number - _SKIPPED), number) if after is not None else ()
        for one in reversed(skipped):
            found = [item for item in self._known.get((group_id, one), ()) if item not in found] + found
        return found

    def _load(self, said: str) -> bool:
        """Whether a line says that a coordinator has just become a group's."""
        match = _LOADED.search(said)
        if match is None:
            return False
        self._pending.pop(match["group"], None)
        if len(self._loaded) < _REMEMBERED:
            self._loaded.add(match["group"])
        return True

    def _note(self, group_id: str, item: Evidence) -> None:
        """Remember a reason. Some ends are logged twice: of a fence the second line gives Kafka's reason, of a
        leave the first has the client's own reason too.
        """
        noted = self._pending.setdefault(group_id, [])
        for index, other in enumerate(noted):
            if item.kind is not None and (other.kind, other.member_ids) == (item.kind, item.member_ids):
                if item.kind == _FENCED:
                    noted[index] = item
                return
        told = {(other.kind, member) for other in noted for member in other.member_ids}
        if (
            item.kind is None
            or not item.member_ids
            or any((item.kind, m) not in told for m in item.member_ids)
        ):
            noted.append(item)
            del noted[:-_PENDING]

    def _follow_silently(self, group_id: str, *, ended: bool) -> None:
        """A line about a member of a share or streams group: its end is the next epoch."""
        epoch = self._epochs.setdefault(group_id, None)
        if ended and epoch is not None:
            self._epochs[group_id] = epoch + 1
            self._bind(group_id, epoch + 1)

    def _bind(self, group_id: str, number: int, *, keep: bool = False) -> None:
        noted = self._pending.get(group_id, []) if keep else self._pending.pop(group_id, [])
        if noted:
            self._known[group_id, number] = list(noted)
            self._known.move_to_end((group_id, number))
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


def _classic_reason(reason: str, *, moved: bool) -> Evidence:
    """``moved``: whether another coordinator than the one of the generation before says so."""
    if moved and _UNANSWERED.search(reason):
        return _evidence(reason, "", COORDINATOR_MOVED)
    for pattern, kind in _REASONS:
        match = pattern.search(reason)
        if match is not None:
            return _evidence(reason, match["member"], kind)
    who = _MEMBER.search(reason)
    return _evidence(reason, who[1] if who else "", None)


def _evidence(reason: str, members: str, kind: str | None) -> Evidence:
    ids = [member for member in re.split(r"[,\s]+", members) if member]
    return Evidence(source=SOURCE, reason=reason.strip(), member_ids=ids, kind=kind)
