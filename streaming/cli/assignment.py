"""The command ``assign``: reads groups as JSON Lines and writes the assignments that Kafka would compute."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec import Meta, Struct, field, structs

from assignors import registry
from assignors.assignment import count_moved, diff_members, normalize_members, size
from assignors.consumer.group import topic_ids
from assignors.errors import BadInput, InvalidGroup, MonitorError
from assignors.explain import explain
from assignors.model import Assignment, Member, Topic, TopicPartitions, check_group
from streaming.cli.json_lines import answer_lines, error_answer, read_object, standard_input
from streaming.cli.options import AsJson, MaxLineBytes, TableOption, flag, offline
from streaming.cli.output import writer

#: Limits above the size of any cluster or group. A larger line is a mistake, and its answer would take long.
MAX_MEMBERS = 1_000_000
MAX_PARTITIONS = 5_000_000
MAX_THREADS = 1_000_000
_Share = dict[str, list[Annotated[int, Meta(ge=0, le=2**31 - 1)]]]


class GroupTooLarge(BadInput):
    """A group has more members or partitions than the limit."""


class _InputStruct(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base class of the types in JSON input: frozen, camelCase; unknown fields are ignored, wrong types are refused."""


class TopicLine(_InputStruct, frozen=True):
    """A topic in the JSON input of the commands for assignments, at ``topics.<name>`` of a group."""

    partitions: Annotated[int, Meta(ge=0, le=MAX_PARTITIONS)]
    racks: list[list[str]] | None = None
    topic_id: str | None = None


class MemberLine(_InputStruct, frozen=True):
    """A member in the JSON input of the commands for assignments, at ``members[i]`` of a group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    topics: list[str] | None = None
    owned: _Share = field(default_factory=dict)
    generation: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = -1
    streams: dict[str, Annotated[int, Meta(ge=1, le=MAX_THREADS)]] | None = None


class GroupLine(_InputStruct, frozen=True):
    """A line of ``assign`` or ``check``; lines of ``check`` have the observed ``assignment`` as well."""

    topics: dict[str, TopicLine]
    members: list[MemberLine]
    protocol: str = "classic"
    assignor: str | None = None
    kafka_version: str | None = None
    assignment: dict[str, _Share] | None = None


class GroupQuery(NamedTuple):
    """A validated group, in the form that assignors take; for ``check`` with the observed assignment."""

    protocol: str
    assignor: str | None
    topics: dict[str, Topic]
    members: list[Member]
    kafka_version: str | None = None
    assignment: Mapping[str, Mapping[str, list[int]]] | None = None

    def get_assignor(self) -> str:
        """Return the assignor's name; raise InvalidGroup if the line does not name an assignor."""
        if self.assignor is None:
            raise InvalidGroup("assignor: missing; name one, such as range")
        return self.assignor


_decoder = msgspec.json.Decoder(GroupLine)


def parse_group(data: bytes) -> GroupQuery:
    """Parse one input line of ``assign`` as a group."""
    line = read_object(data, _decoder)
    _check_limits(line)
    topics = {name: _build_topic(name, topic) for name, topic in line.topics.items()}
    if line.protocol == "consumer":
        topic_ids(topics)
    members = [_build_member(at, member, line.protocol) for at, member in enumerate(line.members)]
    check_group(topics, members)
    return GroupQuery(line.protocol, line.assignor, topics, members, line.kafka_version, line.assignment)


def _check_limits(line: GroupLine) -> None:
    partitions = sum(topic.partitions for topic in line.topics.values())
    threads = sum(max((member.streams or {}).values(), default=0) for member in line.members)
    for what, number, limit in (
        ("members: {} members", len(line.members), MAX_MEMBERS),
        ("topics: {} partitions in all", partitions, MAX_PARTITIONS),
        ("members: {} streams in all", threads, MAX_THREADS),
    ):
        if number > limit:
            raise GroupTooLarge(f"{what.format(number)}, the limit is {limit}")


def _build_topic(name: str, line: TopicLine) -> Topic:
    if line.racks is not None and len(line.racks) != line.partitions:
        raise InvalidGroup(
            f"topics.{name}.racks: {len(line.racks)} entries for {line.partitions} partitions; give one list of "
            "racks per partition, [] where they are unknown"
        )
    return Topic(name, line.partitions, None if line.racks is None else tuple(map(tuple, line.racks)), line.topic_id)


def _build_member(at: int, line: MemberLine, protocol: str) -> Member:
    if protocol == "zookeeper":
        if line.streams is None:
            raise InvalidGroup(f"members[{at}].streams: missing; under zookeeper give {{topic: streams}}")
    elif line.topics is None:
        raise InvalidGroup(f"members[{at}].topics: missing; give the list of topics subscribed to")
    for name, partitions in line.owned.items():
        if len(set(partitions)) != len(partitions):
            raise InvalidGroup(f"members[{at}].owned.{name}: a partition is listed twice")
    return Member(**structs.asdict(line) | {"topics": tuple(line.topics or ())})


#: Assignors that ``--compare`` shows side by side, in the order of Kafka's documentation.
COMPARED_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


def compute_assignment(query: GroupQuery, assignor: str) -> Assignment:
    """Return the assignment that this assignor computes for a group of the input."""
    # Only the ZooKeeper consumer changed its rules between Kafka versions.
    takes_kafka_version = query.protocol == "zookeeper" and query.kafka_version is not None
    version = {"kafka_version": query.kafka_version} if takes_kafka_version else {}
    return registry.find(query.protocol, assignor).assign(query.topics, query.members, **version)


def assignment_answer(data: bytes, *, explained: bool = False) -> dict[str, Any]:
    """Return the answer to one line: the ``assignment`` and, if ``explained``, each member's change with reasons."""
    query = parse_group(data)
    assignor = query.get_assignor()
    assignment = compute_assignment(query, assignor)
    answer: dict[str, Any] = {"assignment": normalize_members(assignment)}
    if explained:
        reasons = explain(query.protocol, assignor, query.topics, query.members, assignment)
        answer["members"] = {member: asdict(reason) for member, reason in reasons.items()}
    return answer


def comparison_answer(data: bytes) -> dict[str, Any]:
    """Return the answer to one line: the group's assignment and moved partitions under each client-side assignor.

    ``{"compared": {assignor: {"assignment", "revoked", "assigned", "kept", "moved", "most", "least"}}}``; an
    assignor that fails has an ``error`` instead.
    """
    query = parse_group(data)
    answers: dict[str, Any] = {}
    for assignor in COMPARED_ASSIGNORS if query.protocol == "classic" else registry.names(query.protocol):
        try:
            answers[assignor] = _compare_with_owned(query, compute_assignment(query, assignor))
        except MonitorError as error:
            answers[assignor] = error_answer(error)
    if not answers:
        registry.find(query.protocol, "")  # raises with the list of protocols
    return {"compared": answers}


def _compare_with_owned(query: GroupQuery, assignment: Assignment) -> dict[str, Any]:
    owned: dict[str, TopicPartitions] = {member.member_id: member.owned for member in query.members}
    before = {member: owned.get(member, {}) for member in assignment}
    changes = diff_members(sort_shares(before), sort_shares(assignment)).values()
    counts = {name: sum(size(getattr(change, name)) for change in changes) for name in ("revoked", "assigned", "kept")}
    sizes = [size(share) for share in assignment.values()]
    partition_counts = {"most": max(sizes, default=0), "least": min(sizes, default=0)}
    moved = count_moved(owned, assignment)
    return {"assignment": normalize_members(assignment), **counts, "moved": moved, **partition_counts}


def sort_shares(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, dict[str, list[int]]]:
    """Return each member's partitions in ascending order."""
    return {member: {topic: sorted(p) for topic, p in share.items()} for member, share in assignment.items()}


@offline(
    """echo '{"assignor": "range", "topics": {"t0": {"partitions": 3}}, "members": """
    """[{"memberId": "c1", "topics": ["t0"]}, {"memberId": "c2", "topics": ["t0"]}]}' | rebalance-monitor assign"""
)
def assign(
    *,
    explain_: bool = flag("--explain", "Add each member's owned, revoked, assigned and kept partitions, and why."),
    compare: bool = flag(
        "--compare", "Compare range, roundrobin, sticky and cooperative-sticky: what each would move."
    ),
    as_json: AsJson = False,
    as_table: TableOption = False,
    max_line_bytes: MaxLineBytes = None,
) -> None:
    """Compute the assignments that Kafka would make.

    Reads groups as JSON Lines from standard input and writes one answer a line. A line that can't be answered gives
    an error on its line, and the exit status is then 2.
    """
    answer = comparison_answer if compare else partial(assignment_answer, explained=explain_)
    write = writer("comparison" if compare else "assignment", as_json=as_json, as_table=as_table)
    raise typer.Exit(answer_lines(standard_input(), answer, write, limit=max_line_bytes))
