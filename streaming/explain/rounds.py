"""The rounds of one group, from the events of its logs in the order of time.

A round by the coordinator's log lasts from "Preparing to rebalance" to "Stabilized". Of a group with epochs it
lasts from the first event of its cause to "Computed a new target assignment". A round by clients' logs lasts
from the first client that stops or joins to the last that has its assignment. Where a coordinator's log is
there, it decides the rounds, and clients only add their reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from streaming.collect.broker_log.events import CoordinatorEvent, MessageKind, ReasonKind
from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.episodes.identity import MemberIdentity
from streaming.explain.clients import POLL_TIMEOUT
from streaming.explain.events import ClientEvent, ClientKind, LogEvent, MemberListing
from streaming.monitor.causes import Differing, cause_of
from streaming.monitor.state import MemberState
from streaming.records.diffs import Cause
from streaming.records.events import COMPARISON, Evidence, Holding

#: Source of evidence from the logs of clients.
SOURCE: Final = "client-log"
_FOLLOW_UPS: Final = ("need to revoke partitions", "cooperative rejoin", "group is already rebalancing")
#: A member id that the coordinator makes: the client id (or the instance id) and a UUID.
_UUID_LENGTH: Final = 37
_UUID: Final = re.compile(r".-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(slots=True)
class LogRound:
    """One round, as logs show it.

    Attributes:
        group_id, number, protocol, assignor, kind: of the group; number None: not known.
        began, ended: ms; ``ended`` None: the logs end before it did.
        evidence: why it began.
        joined, gone: member ids.
        before, after: number of members, at least.
        is_counted: both are exact.
        is_midway: nothing is known of the group before it.
        is_follow_up: it completes the cooperative rebalance before it.
        names: identities of members.
        moved: partitions that changed their owner; None: not known.
        pauses: by member: when it stopped, and when it had its assignment.
        is_by_clients: no coordinator's log shows it.
        present: members that are known to be in the group after it.
    """

    group_id: str
    number: int | None
    began: int
    ended: int | None = None
    protocol: str = "classic"
    assignor: str | None = None
    kind: str = "consumer"
    evidence: list[Evidence] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    before: int = 0
    after: int = 0
    is_counted: bool = False
    is_midway: bool = False
    is_follow_up: bool = False
    names: dict[str, MemberIdentity] = field(default_factory=dict)
    moved: dict[str, list[int]] | None = None
    pauses: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_by_clients: bool = False
    present: list[str] = field(default_factory=list)

    @property
    def cause(self) -> Cause:
        """Why it began, as the monitor names causes."""
        members = [MemberState(one, []) for one in self.present]
        unseen = (
            [Evidence(source=COMPARISON, reason="first observation in the logs")] if self.is_midway else []
        )
        return cause_of(Differing(self.joined, [*self.gone], []), self.evidence, members, unseen)


@dataclass(slots=True)
class Bounce:
    """A static member came back without a round. ``new`` is ``old`` where the log does not name the new id."""

    group_id: str
    at: int
    old: str
    new: str
    instance_id: str
    size: int
    protocol: str


@dataclass(slots=True)
class _Actor:
    """A client between two of its messages."""

    member_id: str | None = None
    number: int = -1
    is_new: bool = False
    stopped: int | None = None
    began: int | None = None
    reason: str = ""


class GroupRounds:
    """Makes rounds of one group's events.

    Args:
        group_id: the group.
        has_coordinator: a coordinator's log of the group is among the logs.
    """

    def __init__(self, group_id: str, *, has_coordinator: bool) -> None:
        self._group_id = group_id
        self._has_coordinator = has_coordinator
        self._reasons = GroupReasons()
        self.members: dict[str, MemberIdentity] = {}
        self.size: int | None = None
        self.number: int | None = None
        self.names: dict[str, MemberIdentity] = {}
        self.kind = "consumer"
        self._pending: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        self._open: LogRound | None = None
        self._done: LogRound | None = None
        self._actors: dict[str, _Actor] = {}
        self._reported: list[Evidence] = []
        self._shares: dict[str, Holding] = {}
        self._shares_of: int | None = None
        self._has_epochs = False
        self._last_at = -1

    def add(self, event: LogEvent) -> Iterator[LogRound | Bounce]:
        """Take an event, and yield the rounds that are complete by then."""
        if event.coordinator is not None:
            yield from self._coordinated(event, event.coordinator)
        elif event.client is not None:
            yield from self._client(event, event.client)
        elif event.listing is not None:
            yield from self._listed(event, event.listing)

    def finish(self) -> Iterator[LogRound | Bounce]:
        """Yield the last rounds; one that the logs do not complete has no end."""
        yield from self._flush()
        if self._open is not None and self._open.gone + self._open.joined + self._open.evidence:
            last = self._open
            last.number = None if last.number is None else last.number + 1
            last.evidence = self._reasons.evidence(self._group_id, last.number or 0) or last.evidence
            yield self._complete(last, None)
        elif self._gone and not self._has_coordinator:
            yield self._complete(LogRound(self._group_id, None, self._last_at, is_by_clients=True), None)

    def _flush(self) -> Iterator[LogRound]:
        if self._done is not None:
            done, self._done = self._done, None
            yield done

    def _name(
        self, member_id: str, client: str | None = None, host: str | None = None, instance: str | None = None
    ) -> None:
        known = self.names.get(member_id, MemberIdentity())
        guess = member_id[:-_UUID_LENGTH] if _UUID.search(member_id) else None
        if instance is None and known.group_instance_id is None:
            client = client or known.client_id or guess
        self.names[member_id] = MemberIdentity(
            client or known.client_id, host or known.client_host, instance or known.group_instance_id
        )

    # The coordinator's log.

    def _coordinated(  # noqa: C901, PLR0912 - one case a kind of message
        self, event: LogEvent, said: CoordinatorEvent
    ) -> Iterator[LogRound | Bounce]:
        kind = said.kind
        if (
            kind is not MessageKind.ASSIGNMENT_RECEIVED
            and kind is not MessageKind.TARGET_COMPUTED
            and not said.late
        ):
            yield from self._flush()
        self._reasons.add(said)
        for member_id in said.member_ids:
            instance = (
                said.instance_id if len(said.member_ids) == 1 or kind is MessageKind.STATIC_REPLACED else None
            )
            self._name(member_id, said.client_id, said.host, instance)
        if said.protocol == "consumer" and kind in (MessageKind.UPGRADED, MessageKind.GROUP_LOADED):
            self._has_epochs = True
        match kind:
            case MessageKind.PREPARING:
                self._prepare(event, said)
            case MessageKind.MEMBER_JOINING | MessageKind.MEMBER_JOINED:
                if event.is_empty and not self._pending and self._open is None:
                    self.members, self.size = {}, 0
                self._pending.update(dict.fromkeys(one for one in said.member_ids if one not in self.members))
                self._begin(event)
            case MessageKind.PENDING_GONE:
                for one in said.member_ids:
                    self._pending.pop(one, None)
            case MessageKind.MEMBER_LEFT | MessageKind.MEMBER_FENCED:
                self._leave(event, said)
            case MessageKind.STATIC_REPLACED:
                yield self._bounced(event, said)
            case MessageKind.STABILIZED | MessageKind.GROUP_EMPTY | MessageKind.EPOCH_BUMPED:
                self._end(event, said)
            case MessageKind.ASSIGNMENT_RECEIVED | MessageKind.TARGET_COMPUTED:
                self._assigned(event, said)
            case MessageKind.GROUP_LOADED:
                if event.size is not None and event.size != self.size:
                    self.members, self.size = {}, event.size
                self._open = None
            case MessageKind.MEMBER_LOADED:
                self.members.update((one, self.names[one]) for one in said.member_ids)
            case MessageKind.GROUP_DEAD:
                self.members, self.size = {}, 0

    def _begin(self, event: LogEvent) -> LogRound:
        if self._open is None:
            self._open = LogRound(self._group_id, self.number, event.at)
        return self._open

    def _prepare(self, event: LogEvent, said: CoordinatorEvent) -> None:
        if self.number is not None and said.number not in (self.number, None):
            self.members, self.size = {}, None  # generations between are in no log
            self._pending, self._gone, self._open = {}, {}, None
        if said.number == 0:
            self.members, self.size = {}, 0
        current = self._begin(event)
        if current.number != said.number or not current.evidence:
            current.began = event.at
        current.number = said.number
        current.evidence = [
            Evidence(source="coordinator-log", reason=said.reason, member_ids=[*said.member_ids])
        ]
        ids = dict.fromkeys(said.member_ids)
        if said.reason_kind is ReasonKind.JOINED:
            self._pending.update(dict.fromkeys(one for one in ids if one not in self.members))
        elif said.reason_kind in (ReasonKind.LEFT, ReasonKind.FENCED):
            self._gone.update(ids)
            for one in ids:
                self._pending.pop(one, None)
        elif said.reason_kind in (ReasonKind.REJOINED, ReasonKind.LEADER_REJOINED):
            for one in ids:
                self.members.setdefault(one, self.names[one])
            current.is_follow_up = (said.client_reason or "").startswith(_FOLLOW_UPS)

    def _leave(self, event: LogEvent, said: CoordinatorEvent) -> None:
        ids = dict.fromkeys(said.member_ids)
        if said.late and self._open is None and self._done is not None:
            return  # its round names it already
        self._gone.update(dict.fromkeys(one for one in ids if one not in self._pending))
        for one in ids:
            self._pending.pop(one, None)
        self._begin(event)

    def _bounced(self, event: LogEvent, said: CoordinatorEvent) -> Bounce:
        old = said.member_ids[-1]
        new = said.member_ids[0]
        self.members.pop(old, None)
        self._name(old, instance=said.instance_id)
        self._name(new, instance=said.instance_id)
        self.members[new] = self.names[new]
        size = max(self.size or 0, len(self.members))
        protocol = "consumer" if self._has_epochs else "classic"
        return Bounce(self._group_id, event.at, old, new, said.instance_id or "", size, protocol)

    def _end(self, event: LogEvent, said: CoordinatorEvent) -> None:
        current = self._begin(event)
        current.number, self.number = said.number, said.number
        has_epochs = said.kind is MessageKind.EPOCH_BUMPED
        self._has_epochs = has_epochs
        current.protocol = (said.protocol or "consumer") if has_epochs else "classic"
        current.kind = (
            "streams" if said.protocol == "streams" else "share" if said.protocol == "share" else self.kind
        )
        size = 0 if said.kind is MessageKind.GROUP_EMPTY else event.size
        if has_epochs and said.number == 1 and not self.members and not self._gone:
            self.size = 0
        current.evidence = self._reasons.evidence(self._group_id, said.number or 0)
        self._open = None
        self._done = self._complete(current, event.at, size)

    def _assigned(self, event: LogEvent, said: CoordinatorEvent) -> None:
        done = self._done
        if done is None or done.number != said.number:
            return
        if said.kind is MessageKind.TARGET_COMPUTED:
            done.ended = event.at
        elif event.size is not None and not done.is_counted and not done.after > event.size:
            self.size = done.after = event.size

    def _complete(self, current: LogRound, ended: int | None, size: int | None = None) -> LogRound:
        """Apply who joined and who departed to the members."""
        current.ended = ended
        joined = [one for one in self._pending if one not in self.members]
        gone = [*self._gone]
        if size == 0:
            gone += [one for one in self.members if one not in self._gone]
            joined = []
        known = len(self.members)
        before = self.size
        if before is None and size is not None:
            before = max(0, size - len(joined) + len(gone))
        expected = None if before is None else before + len(joined) - len(gone)
        if current.protocol != "classic" or current.is_by_clients:
            size = expected if size is None else size
        for one in gone:
            self.members.pop(one, None)
        self.members.update((one, self.names.get(one, MemberIdentity())) for one in joined)
        current.is_counted = before is not None and size is not None and expected == size
        current.is_midway = before is None and not known and not gone and current.number not in (0, 1)
        current.before = (
            before
            if before is not None
            else max(known, len(gone) + (current.number != 1 and ended is not None and size != 0))
        )
        current.after = size if size is not None else max(1, len(self.members))
        self.size = size
        current.joined, current.gone = joined, gone
        current.present = [*self.members]
        current.evidence += [
            item
            for item in self._reported
            if item not in current.evidence and {*item.member_ids} & {*gone, *self.members}
        ]
        ids = [*gone, *joined, *(one for item in current.evidence for one in item.member_ids)]
        current.names = {one: self.names[one] for one in ids if one in self.names}
        self._pending, self._gone, self._reported = {}, {}, []
        return current

    # Clients' logs.

    def _client(self, event: LogEvent, said: ClientEvent) -> Iterator[LogRound]:
        actor = self._actors.setdefault(said.actor, _Actor())
        self._last_at = max(self._last_at, event.at)
        self.kind = said.group_kind if said.group_kind != "consumer" else self.kind
        member = said.member_id or actor.member_id
        if member is not None:
            self._name(member, said.client_id, instance=said.instance_id)
        match said.kind:
            case ClientKind.JOINING | ClientKind.REVOKED | ClientKind.COORDINATOR_LOST:
                if said.kind is ClientKind.REVOKED and said.partitions != 0:
                    actor.stopped = event.at if actor.stopped is None else actor.stopped
                if said.kind is not ClientKind.COORDINATOR_LOST and actor.began is None:
                    actor.began = event.at
                actor.reason = said.reason or actor.reason
            case ClientKind.NEW_ID:
                actor.is_new = True
            case ClientKind.LEAVING:
                self._depart(
                    member, "member.left", f"LeaveGroup; client reason: {said.reason or 'not provided'}"
                )
                actor.member_id = None
            case ClientKind.OVERRAN:
                self._depart(member, "member.left", POLL_TIMEOUT)
            case ClientKind.EXPIRED:
                self._depart(member, "group.observed", "the coordinator did not know the member any more")
                actor.member_id = None
            case ClientKind.JOINED | ClientKind.COMPUTED | ClientKind.ASSIGNED:
                yield from self._joined(event, said, actor, member)
            case ClientKind.GROWTH:
                self._reported.append(
                    Evidence(source=SOURCE, reason=said.reason, kind="topic.partitions_changed")
                )

    def _depart(self, member: str | None, kind: str, reason: str) -> None:
        if member is None:
            return
        if not any(member in item.member_ids and item.kind is not None for item in self._reported):
            self._reported.append(Evidence(source=SOURCE, reason=reason, member_ids=[member], kind=kind))
        if not self._has_coordinator:
            self._gone[member] = None

    def _joined(
        self, event: LogEvent, said: ClientEvent, actor: _Actor, member: str | None
    ) -> Iterator[LogRound]:
        number = said.number if said.number is not None else actor.number
        if said.kind is ClientKind.JOINED and member is not None:
            if actor.member_id not in (None, member) and not self._has_coordinator:
                self._gone[actor.member_id or ""] = None
            actor.member_id, actor.number = member, number
        if not self._has_coordinator and number > 0:
            if self._done is None or self._done.number is None or number > self._done.number:
                yield from self._flush()
                self._done = self._by_clients(event, said, actor, number)
            self._extend(event, said, actor, member, number)
        if said.kind is ClientKind.ASSIGNED:
            if actor.stopped is not None and member is not None and self._done is not None:
                self._done.pauses[member] = (actor.stopped, event.at)
            actor.stopped = actor.began = None
            actor.reason = ""

    def _by_clients(self, event: LogEvent, said: ClientEvent, actor: _Actor, number: int) -> LogRound:
        if self.number is not None and number < self.number:
            self.members, self.size = {}, None
        if number == 1:
            self.members, self.size = {}, None
        current = LogRound(self._group_id, number, event.at if actor.began is None else actor.began)
        current.protocol, current.kind, current.is_by_clients = said.protocol, self.kind, True
        current.is_follow_up = actor.reason.startswith(_FOLLOW_UPS) and not self._gone
        skipped = self.number is not None and number > self.number + 1
        if skipped:
            self.size = None
        done = self._complete(current, event.at)
        self.number = number
        return done

    def _extend(
        self, event: LogEvent, said: ClientEvent, actor: _Actor, member: str | None, number: int
    ) -> None:
        """Add a client's message to the round of its generation."""
        done = self._done
        if done is None or done.number != number:
            return
        done.ended = max(done.ended or 0, event.at)
        done.began = min(done.began, actor.began if actor.began is not None else done.began)
        done.assignor = said.assignor or done.assignor
        if member is not None and member not in self.members:
            self.members[member] = self.names[member]
            if (
                actor.is_new
                or number == 1
                or (not done.is_midway and said.kind is ClientKind.JOINED and done.gone)
            ):
                done.joined.append(member)
            done.present = [*self.members]
            done.names[member] = self.names[member]
            if done.gone and len(done.gone) == done.before and done.after < len(self.members):
                done.after = len(self.members)
        done.after = max(done.after, len(self.members))
        if said.kind is ClientKind.JOINED:
            actor.is_new = False
        if said.shares:
            self._whole(
                done, {one: self.names.get(one, MemberIdentity()) for one in said.shares}, said.shares
            )
        elif said.size is not None:
            done.after = self.size = said.size

    # Full lists of members.

    def _listed(self, event: LogEvent, listing: MemberListing) -> Iterator[LogRound]:
        for member_id, who in listing.members.items():
            self._name(member_id, who.client_id, who.client_host, who.group_instance_id)
        if listing.number is None:
            return
        self.kind = listing.group_kind
        if self._has_coordinator:
            if self._done is not None and self._done.number == listing.number:
                self._done.assignor = listing.assignor
                self._whole(self._done, listing.members, listing.shares)
            return
        if self.number == listing.number:
            return
        yield from self._flush()
        current = LogRound(
            self._group_id, listing.number, event.at, event.at, kind=self.kind, assignor=listing.assignor
        )
        current.is_midway = self.size is None and listing.number > 1
        before = len(self.members)
        if self.size is None and listing.number == 1:
            self.size = 0
        counted = self.size is not None
        self._done = current
        current.before = before if counted else len(listing.members)
        self._whole(current, listing.members, listing.shares)
        current.is_counted = True
        self.number = listing.number

    def _whole(self, done: LogRound, members: dict[str, MemberIdentity], shares: dict[str, Holding]) -> None:
        """All members of a round are known: who is new and who is gone follows from the round before."""
        if self.size is not None and not done.is_midway and not self._has_coordinator:
            known = {*self.members} - {*done.joined} | {*done.gone}
            if done.is_by_clients is False or len(known) == done.before:
                done.joined = [one for one in members if one not in known]
                done.gone = [one for one in known if one not in members]
        self.members = {one: self.names.get(one, who) for one, who in members.items()}
        self.size = done.after = len(members)
        done.present = [*members]
        for one in (*done.joined, *done.gone):
            done.names.setdefault(one, self.names.get(one, MemberIdentity()))
        if shares and self._shares and done.number is not None and self._shares_of == done.number - 1:
            owners = {
                (t, p): one for one, share in self._shares.items() for t, ps in share.items() for p in ps
            }
            done.moved = {}
            for one, share in shares.items():
                for topic, partitions in share.items():
                    moved = [p for p in partitions if owners.get((topic, p), one) != one]
                    if moved:
                        done.moved.setdefault(topic, []).extend(moved)
        if shares:
            self._shares, self._shares_of = shares, done.number
