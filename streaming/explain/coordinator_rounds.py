"""Rounds of a group, built from the coordinator's log.

A round of a classic group lasts from "Preparing to rebalance" to "Stabilized". A round of a group with epochs lasts
from the first event that causes it to "Computed a new target assignment".
"""

from collections.abc import Iterable, Iterator

from msgspec import structs

from streaming.collect.broker_log.events import CoordinatorEvent, MessageKind, ReasonKind
from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.episodes.notes import BounceNote
from streaming.explain.events import LogEvent
from streaming.explain.rounds import FOLLOW_UP_REASONS, GroupRounds, LogRound
from streaming.records.diffs import MemberNames
from streaming.records.events import Evidence


class CoordinatorRounds(GroupRounds):
    """Builds rounds of one group from the coordinator's messages about the group."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self._group_reasons = GroupReasons()
        self._open: LogRound | None = None
        self._has_epochs = False
        #: The first member id of each static member that restarted.
        self._instances: dict[str | None, str] = {}

    def add(  # noqa: C901, PLR0912 - one case a kind of message
        self, event: LogEvent, message: CoordinatorEvent
    ) -> Iterator[LogRound | BounceNote]:
        """Process a coordinator's log message, and yield the rebalance rounds that are complete now."""
        kind = message.kind
        if kind not in (MessageKind.ASSIGNMENT_RECEIVED, MessageKind.TARGET_COMPUTED) and not message.late:
            yield from self.flush()
        self._group_reasons.add(message)
        for member_id in message.member_ids:
            is_owner = len(message.member_ids) == 1 or kind is MessageKind.STATIC_REPLACED
            self._name(member_id, message.client_id, message.host, message.instance_id if is_owner else None)
        if message.protocol == "consumer" and kind in (MessageKind.UPGRADED, MessageKind.GROUP_LOADED):
            self._has_epochs = True
        if message.protocol in ("streams", "share"):
            self.kind = message.protocol
        match kind:
            case MessageKind.PREPARING:
                self._prepare_rebalance(event, message)
            case MessageKind.MEMBER_JOINING | MessageKind.MEMBER_JOINED:
                if event.is_empty and not self._pending and self._open is None:
                    self._forget_members(0)
                self._add_joined(message.member_ids)
                self._begin_round(event)
            case MessageKind.PENDING_MEMBER_REMOVED:
                for member in message.member_ids:
                    self._pending.pop(member, None)
            case MessageKind.MEMBER_LEFT | MessageKind.MEMBER_FENCED:
                self._add_departed(event, message)
            case MessageKind.STATIC_REPLACED:
                yield self._make_bounce_note(event, message)
            case MessageKind.STABILIZED | MessageKind.GROUP_EMPTY | MessageKind.EPOCH_BUMPED:
                self._end_round(event, message)
            case MessageKind.ASSIGNMENT_RECEIVED | MessageKind.TARGET_COMPUTED:
                self._apply_assignment(event, message)
            case MessageKind.GROUP_LOADED:
                if event.size is not None and event.size != self.size:
                    self._forget_members(event.size)
                self._open = None
            case MessageKind.MEMBER_LOADED:
                self.members.update((member, self.names[member]) for member in message.member_ids)
            case MessageKind.GROUP_DEAD:
                self._forget_members(0)

    def finish(self) -> Iterator[LogRound]:
        """Yield the rounds that are still open at the end of the logs; an incomplete round has no end time."""
        yield from self.flush()
        last = self._open
        if last is not None and (self._gone_members or last.evidence):
            last.number = None if last.number is None else last.number + 1
            evidence = self._group_reasons.evidence(self.group_id, last.number or 0)
            last.evidence = evidence or self._group_reasons.pending(self.group_id)
            yield self._complete_round(last, None)

    def _begin_round(self, event: LogEvent) -> LogRound:
        if self._open is None:
            self._open = LogRound(self.group_id, self.number, event.at, protocol=self.protocol)
        return self._open

    def _add_joined(self, member_ids: Iterable[str]) -> None:
        self._pending.update((member, None) for member in member_ids if member not in self.members)

    def _prepare_rebalance(self, event: LogEvent, message: CoordinatorEvent) -> None:
        if self.number is not None and message.number not in (self.number, None):
            self._forget_members(None)  # the logs lack the generations in between
            self._pending, self._gone_members, self._open = {}, {}, None
        if message.number == 0:
            self._forget_members(0)
        current = self._begin_round(event)
        if current.number != message.number or not current.evidence:
            current.began = event.at
        current.number = message.number
        current.evidence = [Evidence(source="coordinator-log", reason=message.reason, member_ids=[*message.member_ids])]
        if message.reason_kind is ReasonKind.JOINED:
            self._add_joined(message.member_ids)
        elif message.reason_kind in (ReasonKind.LEFT, ReasonKind.FENCED):
            for member in message.member_ids:
                self._gone_members[member] = None
                self._pending.pop(member, None)
        elif message.reason_kind in (ReasonKind.REJOINED, ReasonKind.LEADER_REJOINED):
            for member in message.member_ids:
                self.members.setdefault(member, self.names[member])
            current.is_follow_up = (message.client_reason or "").startswith(FOLLOW_UP_REASONS)

    def _add_departed(self, event: LogEvent, message: CoordinatorEvent) -> None:
        if message.late and self._open is None and self._done is not None:
            return  # The round of this leave already contains it.
        for member in message.member_ids:
            if member in self._pending:
                del self._pending[member]
            else:
                self._gone_members[member] = None
        self._begin_round(event)
        if self.kind in ("streams", "share") and self.number is not None:  # The epoch rises without a line.
            self._end_round(event, structs.replace(message, kind=MessageKind.EPOCH_BUMPED, number=self.number + 1))

    def _make_bounce_note(self, event: LogEvent, message: CoordinatorEvent) -> BounceNote:
        new, old = message.member_ids[0], message.member_ids[-1]
        if new == old:  # The line does not name the new member id, which is the old one of the instance's next line.
            new = old = self._instances.setdefault(message.instance_id, old)
        self.members.pop(old, None)
        self.members[new] = self.names[new]
        timestamp, size = max(0, event.at), max(self.size or 0, len(self.members))
        return BounceNote(
            id=f"{self.group_id}/{timestamp}",
            timestamp=timestamp,
            renamed={old: new},
            names=dict.fromkeys((old, new), MemberNames(group_instance_id=message.instance_id or "")),
            before=size,
            protocol="consumer" if self._has_epochs else "classic",
            assignor=None,
            kind="consumer",
        )

    def _end_round(self, event: LogEvent, message: CoordinatorEvent) -> None:
        current = self._begin_round(event)
        current.number, self.number = message.number, message.number
        self._has_epochs = has_epochs = message.kind is MessageKind.EPOCH_BUMPED
        current.protocol = self.protocol = self.kind if has_epochs else "classic"
        current.kind = self.kind
        size = 0 if message.kind is MessageKind.GROUP_EMPTY else event.size
        if has_epochs and message.number == 1 and not self.members and not self._gone_members:
            self.size = 0
        current.evidence = self._group_reasons.evidence(self.group_id, message.number or 0)
        self._open = None
        self._done = self._complete_round(current, event.at, size)

    def _apply_assignment(self, event: LogEvent, message: CoordinatorEvent) -> None:
        done = self._done
        if done is None or done.number != message.number:
            return
        if message.kind is MessageKind.TARGET_COMPUTED:
            done.ended = event.at
        elif event.size is not None and not done.is_counted and not done.after > event.size:
            self.size = done.after = event.size
