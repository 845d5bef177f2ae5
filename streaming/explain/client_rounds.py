"""Rounds of a group, built from the logs of clients and the output of Kafka's tools.

A round in clients' logs begins when the first client stops or joins, and ends when the last client has its assignment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streaming.collect.broker_log.messages import METADATA_CHANGED_REASON, SUBSCRIPTION_CHANGED
from streaming.explain.clients import POLL_TIMEOUT
from streaming.explain.events import ClientEvent, ClientKind, LogEvent, MemberListing
from streaming.explain.rounds import FOLLOW_UP_REASONS, GroupRounds, LogRound
from streaming.records.diffs import MemberNames
from streaming.records.events import Evidence, Holding

#: Source of evidence from the logs of clients.
SOURCE: Final = "client-log"
#: Reasons why clients rejoin in a rebalance that others triggered.
_FOLLOW_UP_REASONS: Final = (
    *FOLLOW_UP_REASONS,
    "need to re-join with the given member-id",
    "rebalance failed",
    "rebalance in progress",
)
#: Clients of one round log their joins within this time.
_SAME_ROUND_MS: Final = 10_000


@dataclass(slots=True)
class _Client:
    """State of a client between two of its log messages.

    Attributes:
        is_new: the coordinator assigned a new member id to the client.
        is_shared: several members have the same name in the log, such as the replicas of an application.
        stopped: time at which the client last gave up partitions, ms.
        began: time at which the client began to rejoin, ms; ``reason``: the reason for that.
    """

    member_id: str | None = None
    number: int = -1
    is_new: bool = False
    is_shared: bool = False
    stopped: int | None = None
    began: int | None = None
    reason: str = ""


class ClientRounds(GroupRounds):
    """Builds rounds of one group from the messages of its clients and the listings of its members.

    Attributes:
        reports: events of members or topics that clients reported, each with the time of the report, ms.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.reports: list[tuple[int, Evidence]] = []
        self._first_unused = 0
        self._clients: dict[str, _Client] = {}
        self._shares: dict[str, Holding] = {}
        self._shares_of: int | None = None
        self._newest_ms = -1

    def add(self, event: LogEvent, message: ClientEvent) -> Iterator[LogRound]:  # noqa: C901 - one case a kind
        """Process a client's log message, and yield the rebalance rounds that are complete now."""
        client = self._clients.setdefault(message.actor, _Client())
        self._newest_ms = max(self._newest_ms, event.at)
        self.kind = message.group_kind if message.group_kind != "consumer" else self.kind
        member = message.member_id or (None if client.is_shared else client.member_id)
        if member is not None:
            self._name(member, message.client_id, instance=message.instance_id)
        match message.kind:
            case ClientKind.JOINING:
                client.began = event.at if client.began is None else client.began
                client.reason = message.reason or client.reason
                if message.reason and not message.reason.startswith(_FOLLOW_UP_REASONS):
                    self._report(event, message.reason, _requested_kind(message.reason), member)
            case ClientKind.REVOKED:
                client.began = event.at if client.began is None else client.began
                if message.partitions != 0 and client.stopped is None:
                    client.stopped = event.at
            case ClientKind.NEW_MEMBER_ID:
                client.is_new = True
            case ClientKind.LEAVING:
                reason = f"LeaveGroup; client reason: {message.reason or 'not provided'}"
                self._record_departure(event, member, "member.left", reason)
                client.member_id = None
            case ClientKind.POLL_TIMED_OUT:
                self._record_departure(event, member, "member.left", POLL_TIMEOUT)
            case ClientKind.HEARTBEAT_EXPIRED:
                reason = message.reason or "the coordinator did not know the member any more"
                self._record_departure(event, member, "group.observed", reason)
                client.member_id = None
            case ClientKind.JOINED | ClientKind.COMPUTED | ClientKind.PARTITIONS_ASSIGNED:
                yield from self._joined(event, message, client, member)
            case ClientKind.PARTITIONS_RELEASED if message.number is not None:
                yield from self._add_release(event, message, client, message.number)
            case ClientKind.GROWTH:
                self._report(event, message.reason, "topic.partitions_changed")

    def add_listing(self, event: LogEvent, listing: MemberListing) -> Iterator[LogRound]:
        """Process a log line that lists all members, and yield the rebalance rounds that are complete now."""
        for member_id, who in listing.members.items():
            self._name(member_id, who.client_id, who.client_host, who.group_instance_id)
        if listing.number is None or self.number == listing.number:
            return
        self.kind = listing.group_kind
        yield from self.flush()
        is_midway = self.size is None and listing.number > 1
        if self.size is None and listing.number == 1:
            self.size = 0
        self.number = listing.number
        done = LogRound(
            self.group_id, listing.number, event.at, event.at, listing.protocol, listing.assignor, self.kind
        )
        done.evidence, done.before = [*listing.evidence], len(listing.members if is_midway else self.members)
        done.is_counted, done.is_midway = True, is_midway
        self._done = done
        self._set_members(done, listing.members, listing.shares)

    def finish(self) -> Iterator[LogRound]:
        """Yield the remaining rounds; a round that the logs do not complete has no end time."""
        yield from self.flush()
        if self._gone_members:
            last = LogRound(self.group_id, None, self._newest_ms, protocol=self.protocol, is_from_clients=True)
            yield self._complete_round(last, None, reports=self._pop_reports(self._newest_ms))

    def _pop_reports(self, until: int) -> list[Evidence]:
        begin = self._first_unused
        while self._first_unused < len(self.reports) and self.reports[self._first_unused][0] <= until:
            self._first_unused += 1
        return [item for _, item in self.reports[begin : self._first_unused]]

    def _report(self, event: LogEvent, reason: str, kind: str | None, member: str | None = None) -> None:
        item = Evidence(source=SOURCE, reason=reason, member_ids=[member] if member else [], kind=kind)
        self.reports.append((event.at, item))

    def _record_departure(self, event: LogEvent, member: str | None, kind: str, reason: str) -> None:
        if member is None:
            return
        unused_reports = [item for _, item in self.reports[self._first_unused :]]
        if not any(member in item.member_ids and item.kind is not None for item in unused_reports):
            self._report(event, reason, kind, member)
        self._gone_members[member] = None

    def _joined(self, event: LogEvent, message: ClientEvent, client: _Client, member: str | None) -> Iterator[LogRound]:
        is_unnumbered = message.kind is ClientKind.JOINED and message.number is None
        number = self._round_number(event, client) if is_unnumbered else message.number or client.number
        is_new_group = number < client.number and not client.is_shared  # the group was deleted and begins at 1 again
        if message.kind is ClientKind.JOINED and member is not None:
            if (client.member_id, client.number) == (member, number):
                return  # This is the answer to one of many heartbeats.
            if client.member_id not in (None, member):
                client.is_shared = client.is_shared or number == client.number
                if not client.is_shared:
                    self._gone_members[client.member_id or ""] = None
            client.member_id, client.number = member, number
        if number > 0:
            if is_new_group or number > (self.number or 0):
                yield from self.flush()
                began = event.at if client.began is None else client.began
                self._done = self._make_round(message, client, number, began, event.at)
                self._done.number = None if is_unnumbered else number
            self._add_to_round(event, message, client, member, number)
        if message.kind is not ClientKind.COMPUTED:
            client.began = None
        if message.kind is ClientKind.PARTITIONS_ASSIGNED:
            if client.stopped is not None and member is not None and self._done is not None and not client.is_shared:
                self._done.pauses[member] = (client.stopped, event.at)
            client.stopped = None
            client.reason = ""

    def _add_release(self, event: LogEvent, message: ClientEvent, client: _Client, number: int) -> Iterator[LogRound]:
        """Process the log message of a sarama client (Go) about the end of a session, whose begin is unknown."""
        if client.stopped is not None and number > max(client.number, self.number or 0):
            yield from self.flush()
            self._done = self._make_round(message, client, number, client.stopped, None)
        client.member_id, client.number, client.stopped = message.member_id, number, event.at
        if message.member_id:
            self.members[message.member_id] = self.names[message.member_id]

    def _round_number(self, event: LogEvent, client: _Client) -> int:
        """Return the number of the round of a client's event, the last or next one, in a log without generations."""
        done = self._done
        is_same = done is not None and client.number != self.number and event.at - (done.ended or 0) < _SAME_ROUND_MS
        return (self.number or 1) + (not is_same)

    def _make_round(self, event: ClientEvent, client: _Client, number: int, began: int, ended: int | None) -> LogRound:
        if number == 1 or (self.number is not None and number < self.number):
            self._forget_members(None)
        round_ = LogRound(self.group_id, number, began, protocol=event.protocol, kind=self.kind, is_from_clients=True)
        round_.is_follow_up = client.reason.startswith(FOLLOW_UP_REASONS) and not self._gone_members
        if self.number is not None and number > self.number + 1:
            self.size = None
        self.number, self.protocol = number, event.protocol
        return self._complete_round(round_, ended, reports=self._pop_reports(began if ended is None else ended))

    def _add_to_round(
        self, event: LogEvent, message: ClientEvent, client: _Client, member: str | None, number: int
    ) -> None:
        done = self._done
        if done is None or self.number != number:
            return
        if member in done.gone and not any(member in item.member_ids for item in done.evidence):
            done.gone.remove(member)
            self.members[member] = self.names[member]
        done.ended = max(done.ended or 0, event.at)
        done.began = done.began if client.began is None else min(done.began, client.began)
        done.assignor = message.assignor or done.assignor
        if member is not None and member not in self.members:
            self.members[member] = self.names[member]
            is_successor = not done.is_midway and message.kind is ClientKind.JOINED and bool(done.gone)
            if client.is_new or number == 1 or is_successor:
                done.joined.append(member)
            done.present = [*self.members]
            done.names[member] = self.names[member]
        done.after = max(done.after, len(self.members))
        if message.kind is ClientKind.JOINED:
            client.is_new = False
        if message.shares:
            self._set_members(done, dict.fromkeys(message.shares, MemberNames()), message.shares)
        elif message.size is not None:
            done.after = self.size = message.size

    def _set_members(self, done: LogRound, members: dict[str, MemberNames], shares: dict[str, Holding]) -> None:
        """Set all members of a round; members joined or departed if the previous round's members differ."""
        if self.size is not None and not done.is_midway:
            before = dict.fromkeys([*(member for member in self.members if member not in done.joined), *done.gone])
            if not done.is_from_clients or len(before) == done.before:
                done.joined = [member for member in members if member not in before]
                done.gone = [member for member in before if member not in members]
        self.members = {member: self.names.get(member, who) for member, who in members.items()}
        self.size = done.after = len(members)
        done.present = [*members]
        for member in (*done.joined, *done.gone):
            done.names.setdefault(member, self.names.get(member, MemberNames()))
        if shares:
            if self._shares and done.number is not None and self._shares_of == done.number - 1:
                done.moved = _moved_partitions(self._shares, shares)
            self._shares, self._shares_of = shares, done.number


def _requested_kind(reason: str) -> str | None:
    """Return the event type by which a client itself triggered the rebalance; None if it did not."""
    if reason.startswith(METADATA_CHANGED_REASON):
        return "topic.partitions_changed"
    return "member.subscription_changed" if reason.startswith(SUBSCRIPTION_CHANGED) else None


def _moved_partitions(before: dict[str, Holding], after: dict[str, Holding]) -> Holding:
    owners = {(topic, p): member for member, owned in before.items() for topic, share in owned.items() for p in share}
    moved: Holding = {}
    for member, share in after.items():
        for topic, partitions in share.items():
            changed = [p for p in partitions if owners.get((topic, p), member) != member]
            if changed:
                moved.setdefault(topic, []).extend(changed)
    return moved
