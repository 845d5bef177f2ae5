"""Parser of clients' log messages about their groups.

Java's consumer, Connect, Streams, librdkafka, kafka-python, aiokafka, franz-go, kafka-go, sarama and KafkaJS.

Sources: ``AbstractCoordinator``, ``ConsumerCoordinator``, ``AbstractMembershipManager`` and ``DistributedHerder`` of
Kafka, ``rdkafka_cgrp.c``, ``kafka/coordinator/base.py``, ``kgo/consumer_group.go``, ``consumergroup.go`` of kafka-go,
``consumer_group.go`` of sarama, and ``consumer/runner.js`` of KafkaJS.
"""

import re
from typing import Final, NamedTuple

from streaming.collect.broker_log.layouts import LogText
from streaming.collect.broker_log.messages import UUID
from streaming.explain.events import ClientEvent, ClientKind
from streaming.records.events import Holding, Kind

K = ClientKind
#: Prefix of messages of Java's clients (``LogContext``).
_JAVA_PREFIX: Final = re.compile(
    r"\[(?P<what>Consumer|Worker|ShareConsumer) (?:instanceId=(?P<instance>.+?), )?"
    r"clientId=(?P<client>.*?), groupId=(?P<group>.+?)\] "
)
#: Name of the logger in a message of Java's clients.
_SOURCE_TRAILER: Final = re.compile(r"\s+\((?:[\w$]+\.)+[\w$]+(?::\d+)?\)(?:\s+\[[^\]]*\])?\s*$")
_RDKAFKA_PREFIX: Final = re.compile(r"(?P<client>(?<=\|)[^|]+|[^\s|\[]+)#consumer-\d+(?:\||:)? ?")
#: Any message of librdkafka about a group.
_RDKAFKA_GROUP: Final = re.compile(r"#consumer-\d+.* Group \"(?P<group>[^\"]+)\"")
_GROUP: Final = r"(?P<group>.+?)"
#: A group id at the end of a message.
_GROUP_AT_END_PATTERN: Final = rf"{_GROUP}[.,;:]?(?:$|\"|, | [(\[{{])"
#: A member id; the client id at its beginning may contain blanks.
_MEMBER: Final = rf"(?P<member>.{{0,500}}?{UUID}|\S+)"
_PARTITION: Final = re.compile(r"([\w.-]+)-(\d+)")
_FIELD_PATTERN: Final = re.compile(r"(\w+): (\[[^\]]*\]|[^,]*)(?:, |$)")
#: Client id of a Streams consumer, which contains the name of its thread.
_STREAM_THREAD: Final = re.compile(r"-StreamThread-\d+-")
POLL_TIMEOUT: Final = "client reason: consumer poll timeout has expired"


def _table(*rows: tuple[ClientKind, str]) -> tuple[tuple[ClientKind, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in rows)


#: Kinds of reports by clients, and the patterns of their messages.
_JAVA_WORDINGS: Final = _table(
    (K.JOINING, r"\(Re-\)joining group|Rebalance started"),
    (K.NEW_MEMBER_ID, rf"Request joining group due to: need to re-join with the given member-id: {_MEMBER}"),
    (K.JOINING, r"Request joining group due to: (?P<reason>.*)|Attempt to heartbeat (?:with (?!stale ).* )?failed (?:since group is rebalancing|since generation \S+ is not current|due to ILLEGAL_GENERATION)"),
    (K.JOINED, r"Successfully joined group with generation (?:Generation\{generationId=(?P<number>\d+), memberId='(?P<member>[^']*)', protocol='(?P<assignor>[^']*)'\}|(?P<plain>\d+))"),
    (K.PARTITIONS_ASSIGNED, r"Successfully synced group in generation Generation\{generationId=(?P<number>\d+), memberId='(?P<member>[^']*)'"),
    (K.COMPUTED, r"Finished assignment for group at generation (?P<number>\d+): (?P<shares>\{.*\})"),
    (K.PARTITIONS_ASSIGNED, r"(?:Adding|Setting) newly assigned partitions:? ?(?P<partitions>.*)"),
    (K.REVOKED, r"(?:Revok(?:e|ing)|Lost) previously assigned partitions ?(?P<partitions>.*)"),
    (K.LEAVING, rf"(?:Member {_MEMBER} )?[Ss]ending LeaveGroup request to coordinator .*?(?: due to (?P<reason>.*))?$"),
    (K.POLL_TIMED_OUT, r"(?:This member will leave the group because )?(?:[Cc]onsumer|worker) poll timeout has expired"),
    (K.HEARTBEAT_EXPIRED, rf"Attempt to heartbeat (?:with (?!stale ).* )?failed (?:(?:for )?since member id (?:{_MEMBER} )?is not valid|due to UNKNOWN_MEMBER_ID)"),
    (K.OTHER, r"(?:JoinGroup|SyncGroup) failed: The group instance id .* has been fenced|Caught fenced group\.instance\.id|Attempt to heartbeat .*FENCED_INSTANCE_ID"),
    (K.OTHER, r"Group coordinator \S+ .*is unavailable or invalid"),
    (K.PARTITIONS_ASSIGNED, r"Joined group (?:at generation (?P<number>\d+) with protocol version .* )?and got assignment"),
    # KIP-848.
    (K.JOINING, r"Member (?P<member>\S+) with epoch \S+ transitioned from \w+ to JOINING"),
    (K.JOINED, r"Member (?P<member>\S+) with epoch (?P<epoch>[1-9]\d*) transitioned from \w+ to RECONCILING"),
    (K.PARTITIONS_ASSIGNED, r"Member (?P<member>\S+) with epoch (?P<epoch>[1-9]\d*) transitioned from \w+ to STABLE"),
    (K.POLL_TIMED_OUT, r"Member (?P<member>\S+) with epoch \S+ transitioned from \w+ to STALE"),
    (K.LEAVING, r"Member (?P<member>\S+) with epoch \S+ transitioned from \w+ to LEAVING"),
    (K.HEARTBEAT_EXPIRED, r"Member (?P<member>\S+) with epoch \S+ transitioned from \w+ to FENCED"),
)  # fmt: skip
_OTHER_WORDINGS: Final = _table(
    # librdkafka, with debug=cgrp.
    (K.JOINED, r"JoinGroup response: GenerationId (?P<number>\d+), Protocol (?P<assignor>[\w-]*), LeaderId .*, my MemberId (?P<member>.+?), (?:member metadata count \d+|\d+ members in group): \(no error\)"),
    (K.COMPUTED, r"(?:I am elected|Elected) leader for group \"(?P<group>[^\"]+)\" with (?P<size>\d+) member"),
    (K.NEW_MEMBER_ID, r"Group \"(?P<group>[^\"]+)\": updating member id \"(?:\(not-set\))?\" -> \"(?P<member>[^\"]+)\""),
    (K.JOINING, r"Group \"(?P<group>[^\"]+)\" (?:initiating rebalance|is rebalancing)(?: \(\w+\))? in state .* (?:assigned partition\(s\)(?: \(lost\))?|with(?:out)? assignment): (?P<reason>.*)"),
    (K.JOINING, r"(?:Joining g|G)roup \"(?P<group>[^\"]+)\" (?:with \d+ subscribed topic|changed join state \S+ -> wait-join |heartbeat error response in state .*: Broker: (?:Group rebalance in progress|Specified group generation id is not valid))"),
    (K.REVOKED, r"Group \"(?P<group>[^\"]+)\": delegating (?:incremental )?revoke of (?P<count>\d+) partition"),
    (K.PARTITIONS_ASSIGNED, r"Group \"(?P<group>[^\"]+)\": (?:delegating (?:incremental )?assign|new assignment) of (?P<count>\d+) partition"),
    (K.POLL_TIMED_OUT, r"Application maximum poll interval \(\d+ms\) exceeded by \d+ms|(?:Heartbeat|Consumer) poll (?:timeout has )?expired(?:, leaving group|\. This means)"),
    (K.HEARTBEAT_EXPIRED, r"(?P<reason>Consumer group session timed out .*? coordinator)|Group \"(?P<group>[^\"]+)\" heartbeat error response in state .*: Broker: Unknown member"),
    (K.LEAVING, r"Group \"(?P<group>[^\"]+)\": leave \(in state \S+\)$"),
    (K.JOINED, r"ConsumerGroupHeartbeat response received for member id \"(?P<member>[^\"]+)\" with epoch (?P<epoch>[1-9]\d*)"),
    # kafka-python, aiokafka, and Java before 1.0.
    (K.NEW_MEMBER_ID, rf"Received member id {_MEMBER} for group {_GROUP}; will retry join-group"),
    (K.JOINING, rf"\(Re-\)joining group {_GROUP_AT_END_PATTERN}"),
    (K.JOINED, rf"Successfully joined group {_GROUP} (?:with generation (?P<number>\d+)|<Generation (?P<plain>\d+) \(member_id: (?P<member>[^,]+), protocol: (?P<assignor>[\w-]+)\)>)"),
    (K.JOINED, rf"Joined group '{_GROUP}' \(generation (?P<number>\d+)\) with member_id {_MEMBER}"),
    (K.REVOKED, rf"Revoking previously assigned partitions (?P<partitions>.*) for group {_GROUP_AT_END_PATTERN}"),
    (K.PARTITIONS_ASSIGNED, rf"Setting newly assigned partitions (?P<partitions>.*) for group {_GROUP_AT_END_PATTERN}"),
    (K.LEAVING, rf"Leaving (?:consumer group \((?P<plain_group>[^)]+)\)|(?:consumer )?group {_GROUP}(?:, | \()member {_MEMBER})"),
    (K.HEARTBEAT_EXPIRED, rf"Heartbeat(?: failed)?: local member_id was not recognized|heartbeat failed for group {_GROUP} since member id is not valid"),
    (K.JOINING, rf"[Hh]eartbeat failed for group {_GROUP} because it is rebalancing|Group (?P<plain_group>\S+) is rebalancing; rejoining"),
    # kafka-go.
    (K.JOINED, rf"[Jj]oined group {_GROUP} as member {_MEMBER} in generation (?P<number>\d+)"),
    (K.GROWTH, rf"(?P<reason>Partition changes found), rebalancing group: {_GROUP_AT_END_PATTERN}"),
    # sarama.
    (K.PARTITIONS_RELEASED, r"consumergroup/session/(?P<member>.+?)/(?P<number>\d+) released"),
    (K.OTHER, rf"consumergroup[ /]{_GROUP} (?:is #|loop check partition number (?:co|go)routine will exit)"),
    (K.GROWTH, rf"consumergroup/{_GROUP} loop check partition number goroutine find partitions in topics (?P<reason>\S+ changed from \d+ to \d+)"),
)  # fmt: skip
#: Messages of franz-go and KafkaJS, followed by keys and values. KafkaJS logs no generation.
_MESSAGES_WITH_FIELDS: Final = {
    "joining group": K.JOINING,
    "join returned MemberIDRequired, rejoining with response's MemberID": K.NEW_MEMBER_ID,
    "joined, balancing group": K.JOINED,
    "joined": K.JOINED,
    "synced": K.PARTITIONS_ASSIGNED,
    "leaving group": K.LEAVING,
    "eager consumer revoking prior assigned partitions": K.REVOKED,
    "[Runner] The group is rebalancing, re-joining": K.JOINING,
    "[Runner] The coordinator is not aware of this member, re-joining the group": K.HEARTBEAT_EXPIRED,
    "[ConsumerGroup] Consumer has joined the group": K.JOINED,
    "[Runner] Consumer has joined the group": K.JOINED,
}
_LOGFMT: Final = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))')
_FRANZ_GO_LINE: Final = re.compile(r"(?:^|\] |\s)(?P<message>[a-z][^;:\[\]]*); (?P<fields>group: .*)$")


class ClientMessage(NamedTuple):
    """A client's message and the text before it.

    Attributes:
        group_id: the group; None if the message does not contain it.
        event: the event; None if the message only shows to which group the client belongs.
    """

    group_id: str | None
    event: ClientEvent | None
    header: str


def read_client(text: LogText, source: str) -> ClientMessage | None:
    """Return the client's message in a line of the file ``source``; None if the line does not contain one."""
    line = text.text
    prefix = _JAVA_PREFIX.search(line)
    if prefix is not None:
        return _read_java(line, prefix, source)
    message = _read_key_values(text, source)
    if message is not None:
        return message
    for kind, pattern in _OTHER_WORDINGS:
        match = pattern.search(line)
        if match is not None:
            prefix = _RDKAFKA_PREFIX.search(line, 0, match.start())
            part = match.groupdict()
            group = part.get("group") or part.get("plain_group")
            event = _event(kind, match, source + (prefix[0] if prefix else ""), prefix["client"] if prefix else None)
            return ClientMessage(group and group.rstrip(",.;:"), event, line[: match.start()])
    match = _RDKAFKA_GROUP.search(line)
    return None if match is None else ClientMessage(match["group"], None, line[: match.start()])


def _read_java(line: str, prefix: re.Match[str], source: str) -> ClientMessage:
    message = _SOURCE_TRAILER.sub("", line[prefix.end() :])
    client, event = prefix["client"], None
    for kind, pattern in _JAVA_WORDINGS:
        match = pattern.match(message)
        if match is not None:
            is_connect, is_streams = prefix["what"] == "Worker", _STREAM_THREAD.search(client)
            group_kind: Kind = "connect" if is_connect else "streams" if is_streams else "consumer"
            event = _event(kind, match, source, client or None, prefix["instance"], group_kind)
            break
    return ClientMessage(prefix["group"], event, line[: prefix.start()])


def _read_key_values(text: LogText, source: str) -> ClientMessage | None:
    fields, message, header = text.fields, text.text, ""
    if not {"group", "groupId"} & {*fields}:
        fields = {name: quoted or plain for name, quoted, plain in _LOGFMT.findall(message) if " msg=" in message}
        header, message = (message, fields.get("msg", "")) if fields else (header, message)
        if "group" not in fields:
            match = _FRANZ_GO_LINE.search(message)
            if match is None:
                return None
            header, message = header or message[: match.start()], match["message"].strip()
            fields = dict(_FIELD_PATTERN.findall(match["fields"]))
    kind = _MESSAGES_WITH_FIELDS.get(message)
    if message == "heartbeat errored":
        error = str(fields.get("err", "")).partition(":")[0]
        kind = {"REBALANCE_IN_PROGRESS": K.JOINING, "UNKNOWN_MEMBER_ID": K.HEARTBEAT_EXPIRED}.get(error)
    group = fields.get("group", fields.get("groupId"))
    if kind is None or not isinstance(group, str):
        return None
    number, member = str(fields.get("generation", "")), fields.get("member_id", fields.get("memberId"))
    event = ClientEvent(
        kind=kind,
        actor=f"{source} {fields.get('memberId', '')}",
        number=int(number) if number.isdigit() else None,
        member_id=member if isinstance(member, str) and member else None,
        reason="the client was closed or left the group" if kind is K.LEAVING else "",
    )
    return ClientMessage(group, event, header)


def _event(  # noqa: PLR0917 - all arguments belong to one message
    kind: ClientKind,
    match: re.Match[str],
    source: str,
    client: str | None,
    instance: str | None = None,
    group_kind: Kind = "consumer",
) -> ClientEvent:
    part = match.groupdict()
    number = part.get("number") or part.get("plain") or part.get("epoch")
    count, listed, size = part.get("count"), part.get("partitions"), part.get("size")
    if listed is not None:
        count = len(re.findall(r"partition=\d+", listed)) or len(_PARTITION.findall(listed))
    shares = parse_partitions(part.get("shares") or "")
    return ClientEvent(
        kind=kind,
        actor=f"{source} {client or ''}",
        client_id=client,
        instance_id=instance,
        number=None if number is None else int(number),
        member_id=part.get("member") or None,
        protocol="consumer" if part.get("epoch") or "transitioned" in match[0] else "classic",
        assignor=part.get("assignor") or None,
        reason=(part.get("reason") or "").strip().rstrip("."),
        size=int(size) if size else len(shares) or None,
        shares=shares,
        partitions=None if count is None else int(count),
        group_kind=group_kind,
    )


def parse_partitions(text: str) -> dict[str, Holding]:
    """Return each member's partitions in a text such as ``{m=Assignment(partitions=[t-0])}`` or ``{m=[t-0, t-1]}``."""
    shares: dict[str, Holding] = {}
    for member, listed in re.findall(r"(?:^\{|, ?)([^={}]+)=(?:Assignment\(partitions=)?\[([^\]]*)\]", text):
        share = shares.setdefault(member, {})
        for topic, partition in _PARTITION.findall(listed):
            share.setdefault(topic, []).append(int(partition))
    return shares
