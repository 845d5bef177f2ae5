"""Log messages of group coordinators in the wording of each release, with the rebalance reason of each message.

Copied from the sources of the releases (tags 2.0.0 to 3.8.0, branch 3.9, sources jars of
kafka-group-coordinator 4.0.0 to 4.3.1), not from the code under test.
"""

from typing import NamedTuple

SCALA_PREFIX, JAVA = "[GroupCoordinator 1]: ", "[GroupCoordinator id=1 topic=__consumer_offsets partition=7] "
MANAGER_PREFIX = "[GroupMetadataManager brokerId=1] "
SCALA_LOGGER = "kafka.coordinator.group.GroupCoordinator"
JAVA_LOGGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"

_UUID = "3e1f0f0a-9f5c-4a57-8a3c-0e3b7d1b2c4d"
#: segmentio/kafka-go's default client id, with the UUID that the coordinator appends.
KAFKA_GO = f"app@host (github.com/segmentio/kafka-go)-{_UUID}"
#: Client ids that contain punctuation and words of the coordinator's messages.
UNUSUAL_MEMBER_ID = f"a, b [c] (d): in group x, member.id é 日本 -{_UUID}"
PLAIN_MEMBER_ID = f"checkout-0-{_UUID}"
OTHER_MEMBER_ID = "checkout-1-11111111-2222-3333-4444-555555555555"
GROUPS = ("orders", "my group in state Stable", "a generation 5 (b) [c]: é")

PARTITION_SUFFIX = "(__consumer_offsets-7)"


class Case(NamedTuple):
    """A log message, the first and last release with this wording, and the rebalance reason in the message."""

    name: str
    since: str
    until: str
    message: str
    kind: str
    number: int | None = None
    members: tuple[str, ...] = ()
    reason: str = ""
    client_reason: str | None = None

    def is_logged_by(self, release: str) -> bool:
        return _order(self.since) <= _order(release) <= _order(self.until)

    @property
    def logger(self) -> str:
        return JAVA_LOGGER if self.message.startswith(JAVA) else SCALA_LOGGER


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _metadata(member: str, instance: str, comma: str = "") -> str:
    return (
        f"MemberMetadata(memberId={member}, groupInstanceId={instance}, clientId=c, clientHost=/10.0.0.1, "
        f"sessionTimeoutMs=45000, rebalanceTimeoutMs=300000, supportedProtocols=List(range, cooperative-sticky){comma})"
    )


# fmt: off
def _scala_reasons(member: str) -> tuple[tuple[str, str, str, str | None], ...]:
    """Return rebalance reasons in old releases' logs: first release, last release, coordinator's, client's reason."""
    return (
        ("2.1", "2.2", f"Adding new member {member}", None),
        ("2.3", "2.4", f"Adding new member {member} with group instanceid None", None),
        ("2.5", "3.1", f"Adding new member {member} with group instance id None", None),
        ("2.5", "3.1", f"Adding new member {member} with group instance id Some(i-1)", None),
        (
            "3.2",
            "3.9",
            f"Adding new member {member} with group instance id None; client reason: not provided",
            None,
        ),
        ("2.1", "2.8", f"removing member {member} on LeaveGroup", None),
        ("3.0", "3.1", f"Removing member {member} on LeaveGroup", None),
        (
            *("3.2", "3.9"),
            f"Removing member {member} on LeaveGroup; client reason: consumer poll timeout has expired.",
            "consumer poll timeout has expired.",
        ),
        ("2.1", "3.9", f"removing member {member} on heartbeat expiration", None),
        ("3.0", "3.9", f"Removing Set({member}) on pending sync request expiration", None),
        ("2.1", "2.6", f"Updating metadata for member {member}", None),
        ("2.7", "3.1", f"Updating metadata for member {member} during Stable", None),
        ("2.7", "2.8", f"leader {member} re-joining group during Stable", None),
        ("3.0", "3.1", f"Leader {member} re-joining group during Stable", None),
        (
            *("3.2", "3.9"),
            f"Leader {member} re-joining group during Stable; client reason: app asked (really :)",
            "app asked (really :)",
        ),
        ("2.5", "3.1", f"Updating metadata for static member {member} with instance id i-1", None),
        ("2.1", "2.8", f"error when storing group assignment during SyncGroup (member: {member})", None),
        ("3.0", "3.3", f"Error when storing group assignment during SyncGroup (member: {member})", None),
        (
            "3.4",
            "3.9",
            f"Error COORDINATOR_NOT_AVAILABLE when storing group assignment during SyncGroup (member: {member})",
            None,
        ),
    )


def _java_reasons(member: str) -> tuple[tuple[str, str, str, str | None], ...]:
    return (
        (
            "3.7",
            "4.3",
            f"Adding new member {member} with group instance id null; client reason: not provided",
            None,
        ),
        ("3.7", "4.3", f"explicit `LeaveGroup` request for ({member}) members.", None),
        ("3.7", "4.3", f"removing member {member} on heartbeat expiration.", None),
        ("3.7", "4.3", f"Removing [{member}] on pending sync request expiration", None),
        (
            *("3.7", "4.3"),
            f"Error COORDINATOR_NOT_AVAILABLE when storing group assignmentduring SyncGroup (member: {member}).",
            None,
        ),
        (
            *("3.7", "4.3"),
            f"Leader {member} re-joining group during Stable; client reason: cached metadata has changed",
            "cached metadata has changed",
        ),
        (
            *("3.7", "4.3"),
            f"Updating metadata for member {member} during Stable; client reason: app asked (really :)",
            "app asked (really :)",
        ),
    )


def _preparing_cases(group: str, member: str) -> list[Case]:
    start = f"Preparing to rebalance group {group} in state PreparingRebalance with old generation 16"
    first = Case("preparing", "2.0", "2.0", f"{SCALA_PREFIX}Preparing to rebalance group {group} with old generation 16 {PARTITION_SUFFIX}", "preparing", 16)
    return [
        first,
        *(
            Case(f"preparing: {why}", since, until, f"{SCALA_PREFIX}{start} {PARTITION_SUFFIX} (reason: {why})", "preparing", 16, (member,), why, own)
            for since, until, why, own in _scala_reasons(member)
        ),
        *(
            Case(f"preparing: {why}", since, until, f"{JAVA}{start} (reason: {why}).", "preparing", 16, (member,), why, own)
            for since, until, why, own in _java_reasons(member)
        ),
    ]


def _generations(group: str, member: str) -> list[Case]:
    counted = "The group has 2 members, 0 of which are static."
    received = f"for group {group} for generation 17"
    return [
        Case("stabilized", "2.0", "2.7", f"{SCALA_PREFIX}Stabilized group {group} generation 17 {PARTITION_SUFFIX}", "stabilized", 17),
        Case("stabilized", "2.8", "3.9", f"{SCALA_PREFIX}Stabilized group {group} generation 17 {PARTITION_SUFFIX} with 2 members", "stabilized", 17),
        Case("stabilized", "3.7", "4.3", f"{JAVA}Stabilized group {group} generation 17 with 2 members.", "stabilized", 17),
        Case("assignment", "2.0", "2.7", f"{SCALA_PREFIX}Assignment received from leader {received}", "assignment-received", 17),
        Case("assignment", "2.8", "2.8", f"{SCALA_PREFIX}Assignment received from leader {received}. {counted}", "assignment-received", 17),
        Case("assignment", "3.0", "3.9", f"{SCALA_PREFIX}Assignment received from leader {member} {received}. {counted}", "assignment-received", 17, (member,)),
        Case("assignment", "3.7", "4.3", f"{JAVA}Assignment received from leader {member} {received}. {counted}", "assignment-received", 17, (member,)),
        Case("empty", "2.0", "3.9", f"{SCALA_PREFIX}Group {group} with generation 18 is now empty {PARTITION_SUFFIX}", "group-empty", 18),
        Case("empty", "3.7", "4.3", f"{JAVA}Group {group} with generation 18 is now empty.", "group-empty", 18),
        Case("dead", "2.0", "3.9", f"{MANAGER_PREFIX}Group {group} transitioned to Dead in generation 18", "group-dead", 18),
        Case("loaded", "2.0", "3.9", f"{SCALA_PREFIX}Loading group metadata for {group} with generation 18", "group-loaded", 18),
        Case("loaded", "3.7", "4.3", f"{JAVA}Loaded classic group {group} with 3 members.", "group-loaded"),
        Case("loaded", "3.6", "4.3", f"{JAVA}Loaded consumer group {group} with 3 members.", "group-loaded"),
        Case("unloaded", "2.0", "3.9", f"{SCALA_PREFIX}Unloading group metadata for {group} with generation 18", "group-unloaded", 18),
        Case("unloaded", "3.8", "4.3", f"{JAVA}[GroupId={group}] Unloading group metadata for generation 18.", "group-unloaded", 18),
        Case("upgraded", "4.0", "4.3", f"{JAVA}[GroupId {group}] Converted the classic group to a consumer group.", "upgraded", reason="Converted the classic group to a consumer group."),
        Case("downgraded", "4.0", "4.3", f"{JAVA}[GroupId {group}] Converted the consumer group to a classic group.", "downgraded", reason="Converted the consumer group to a classic group."),
    ]


def _departures(group: str, member: str) -> list[Case]:
    gone, poll_timeout_reason = "has left, removing it from the group", "consumer poll timeout has expired."
    classic = f"explicit `LeaveGroup` request; client reason: {poll_timeout_reason}"
    failed = f"Member {member} in group {group} has failed, removing it from the group"
    return [
        Case("left", "2.2", "2.3", f"{SCALA_PREFIX}Member {member} in group {group} {gone}", "member-left", None, (member,), gone),
        Case("left", "2.4", "2.8", f"{SCALA_PREFIX}Member[group.instance.id None, member.id {member}] in group {group} {gone}", "member-left", None, (member,), gone),
        Case("left, static", "2.4", "2.8", f"{SCALA_PREFIX}Member[group.instance.id Some(i-1), member.id {member}] in group {group} {gone}", "member-left", None, (member,), gone),
        Case("left", "3.0", "3.1", f"{SCALA_PREFIX}Member {_metadata(member, 'None')} has left group {group} through explicit `LeaveGroup` request", "member-left", None, (member,), "explicit `LeaveGroup` request"),
        Case("left", "3.2", "3.9", f"{SCALA_PREFIX}Member {_metadata(member, 'Some(i-1)')} has left group {group} through explicit `LeaveGroup`; client reason: {poll_timeout_reason}", "member-left", None, (member,), f"explicit `LeaveGroup`; client reason: {poll_timeout_reason}", poll_timeout_reason),
        Case("left", "3.7", "4.3", f"{JAVA}[Group {group}] Member {member} has left group through {classic}", "member-left", None, (member,), classic, poll_timeout_reason),
        Case("left, mixed", "4.0", "4.3", f"{JAVA}[GroupId {group}] Dynamic member {member} has left group through {classic}", "member-left", None, (member,), classic, poll_timeout_reason),
        Case("left, mixed static", "4.0", "4.3", f"{JAVA}[GroupId {group}] Static member {member} with instance id i-1 has left group through {classic}", "member-left", None, (member,), classic, poll_timeout_reason),
        Case("left, mixed", "3.8", "3.9", f"{JAVA}[Group {group}] Dynamic Member {member} has left group through {classic}", "member-left", None, (member,), classic, poll_timeout_reason),
        Case("failed", "2.0", "3.9", f"{SCALA_PREFIX}{failed}", "member-fenced", None, (member,), "has failed, removing it from the group"),
        Case("failed", "3.7", "4.3", f"{JAVA}{failed}.", "member-fenced", None, (member,), "has failed, removing it from the group."),
        Case("not rejoined", "2.7", "2.7", f"{SCALA_PREFIX}Group {group} remove dynamic members who haven't joined: Set({member}, {OTHER_MEMBER_ID})", "member-fenced", None, (member, OTHER_MEMBER_ID), "did not join again in time"),
        Case("not rejoined", "2.8", "3.9", f"{SCALA_PREFIX}Group {group} removed dynamic members who haven't joined: Set({member}, {OTHER_MEMBER_ID})", "member-fenced", None, (member, OTHER_MEMBER_ID), "did not join again in time"),
        Case("not rejoined", "3.7", "4.3", f"{JAVA}Group {group} removed dynamic members who haven't joined: [{member}]", "member-fenced", None, (member,), "did not join again in time"),
        Case("loaded member", "2.8", "2.8", f"{MANAGER_PREFIX}Loaded member {_metadata(member, 'None', ', ')} in group {group} with generation 3.", "member-loaded", 3, (member,)),
        Case("loaded member", "3.0", "3.9", f"{MANAGER_PREFIX}Loaded member {_metadata(member, 'None')} in group {group} with generation 3.", "member-loaded", 3, (member,)),
    ]


def _epochs(group: str, member: str) -> list[Case]:
    head, left = f"{JAVA}[GroupId {group}] ", "left the consumer group."
    fenced = "fenced from the group because the member session expired."
    return [
        Case("epoch", "3.6", "4.0", f"{head}Bumped group epoch to 18.", "epoch-bumped", 18),
        Case("epoch", "4.1", "4.3", f"{head}Bumped group epoch to 18 with metadata hash -24.", "epoch-bumped", 18),
        Case("epoch, streams", "4.2", "4.3", f"{JAVA}[GroupId {group}][MemberId {member}] Bumped streams group epoch to 18 with metadata hash 1 and validated topic epoch 0.", "epoch-bumped", 18, (member,)),
        Case("joins", "3.6", "3.8", f"{head}Member {member} joins the consumer group.", "member-joined", None, (member,), "joins the consumer group."),
        Case("joins", "3.9", "4.3", f"{head}Member {member} joins the consumer group using the consumer protocol.", "member-joined", None, (member,), "joins the consumer group using the consumer protocol."),
        Case("joins, static", "3.9", "4.3", f"{head}Static member {member} with instance id i-1 joins the consumer group using the classic protocol.", "member-joined", None, (member,), "joins the consumer group using the classic protocol."),
        Case("leaves", "3.6", "4.3", f"{head}Member {member} {left}", "member-left", None, (member,), left),
        Case("leaves, static", "4.0", "4.3", f"{head}Static member {member} with instance id i-1 {left}", "member-left", None, (member,), left),
        Case("away", "4.0", "4.3", f"{head}Static member {member} with instance id i-1 temporarily {left}", "static-away", None, (member,), f"temporarily {left}"),
        Case("replaced", "3.9", "4.3", f"{head}Static member with instance id i-1 re-joins the consumer group using the consumer protocol. Created a new member {member} to replace the existing member {OTHER_MEMBER_ID}.", "static-replaced", None, (member, OTHER_MEMBER_ID)),
        Case("fenced", "3.8", "4.3", f"{head}Member {member} {fenced}", "member-fenced", None, (member,), fenced),
        Case("share joins", "3.9", "4.3", f"{head}Member {member} joins the share group using the share protocol.", "member-joined", None, (member,), "joins the share group using the share protocol."),
        Case("streams fenced", "4.1", "4.3", f"{head}Streams member {member} {fenced}.", "member-fenced", None, (member,), f"{fenced}."),
    ]


# fmt: on


def cases(group: str, member: str) -> list[Case]:
    """Return a case for every coordinator message about a rebalance, for this group and member."""
    return [
        *_preparing_cases(group, member),
        *_generations(group, member),
        *_departures(group, member),
        *_epochs(group, member),
    ]
