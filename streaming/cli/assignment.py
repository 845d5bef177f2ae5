"""Answer a group's JSON line: validate it, compute its assignment, compare assignors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from assignors import registry
from assignors.diff import diff, moved, size
from assignors.errors import BadInput, InvalidGroup, MonitorError
from assignors.explain import explain
from assignors.java import uuid_bits
from assignors.model import Assignment, Member, Share, Topic
from assignors.shares import tidy
from streaming.cli.json_lines import (
    LineAnswer,
    error_answer,
    field_message,
    first_problem,
    object_items,
    read_object,
)

#: More than any cluster or group has; past it a line is a mistake, and would be a heavy one.
MAX_MEMBERS = 1_000_000
MAX_PARTITIONS = 5_000_000
MAX_THREADS = 1_000_000

_Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Partition = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Count = Annotated[int, Meta(ge=0, le=MAX_PARTITIONS)]
_Share = dict[str, list[_Partition]]
_Threads = Annotated[int, Meta(ge=1, le=MAX_THREADS)]
#: Stands for the id of a topic without metadata, which nobody looks at (``Uuid.ZERO_UUID``).
_NO_ID = "A" * 22


class TooLarge(BadInput):
    """The group is larger than is answered."""


class _Line(Struct, frozen=True, kw_only=True, rename="camel"):
    """Unknown fields are ignored, wrong types refused."""


class TopicLine(_Line, frozen=True):
    """``topics.<name>`` of a line."""

    partitions: _Count
    racks: list[list[str]] | None = None
    topic_id: str | None = None


class MemberLine(_Line, frozen=True):
    """``members[i]`` of a line."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    topics: list[str] | None = None
    owned: _Share = field(default_factory=dict)
    generation: _Int32 = -1
    streams: dict[str, _Threads] | None = None


class GroupLine(_Line, frozen=True):
    """A line of ``assign``, and of ``check``, which adds what was observed."""

    topics: dict[str, TopicLine]
    members: list[MemberLine]
    protocol: str = "classic"
    assignor: str | None = None
    kafka_version: str | None = None
    assignment: dict[str, _Share] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A group that does not contradict itself, as the assignors take it."""

    protocol: str
    assignor: str | None
    topics: dict[str, Topic]
    members: list[Member]
    kafka_version: str | None = None
    assignment: Mapping[str, Mapping[str, list[int]]] | None = None

    def named_assignor(self) -> str:
        """The assignor of the line.

        Raises:
            InvalidGroup: it names none.
        """
        if self.assignor is None:
            raise InvalidGroup("assignor: missing; name one, such as range")
        return self.assignor


_decoder = msgspec.json.Decoder(GroupLine)


def parse_question(data: bytes) -> Question:
    """The question of one line.

    Raises:
        MalformedJson: it is no JSON object.
        BadInput: a field is missing, has the wrong type or contradicts another; the message names it.
    """
    line = read_object(data, _decoder, _locate_error)
    _check_size(line)
    topics = {name: _build_topic(name, topic, line.protocol) for name, topic in line.topics.items()}
    _check_topic_ids(topics, line.protocol)
    members = [_build_member(at, member, line.protocol) for at, member in enumerate(line.members)]
    _check_members(members)
    return Question(line.protocol, line.assignor, topics, members, line.kafka_version, line.assignment)


def _check_size(line: GroupLine) -> None:
    if len(line.members) > MAX_MEMBERS:
        raise TooLarge(f"members: {len(line.members)} members, the limit is {MAX_MEMBERS}")
    partitions = sum(topic.partitions for topic in line.topics.values())
    if partitions > MAX_PARTITIONS:
        raise TooLarge(f"topics: {partitions} partitions in all, the limit is {MAX_PARTITIONS}")
    threads = sum(max((member.streams or {}).values(), default=0) for member in line.members)
    if threads > MAX_THREADS:
        raise TooLarge(f"members: {threads} streams in all, the limit is {MAX_THREADS}")


def _build_topic(name: str, line: TopicLine, protocol: str) -> Topic:
    if line.racks is not None and len(line.racks) != line.partitions:
        raise InvalidGroup(
            f"topics.{name}.racks: {len(line.racks)} entries for {line.partitions} partitions; give one list of "
            "racks a partition, [] where they are unknown"
        )
    if protocol == "consumer":
        if line.topic_id is None and line.partitions:
            raise InvalidGroup(f"topics.{name}.topicId: missing; the consumer protocol knows topics by it")
        try:
            uuid_bits(line.topic_id or _NO_ID)
        except BadInput as error:
            raise InvalidGroup(f"topics.{name}.{error}") from error
    racks = None if line.racks is None else tuple(map(tuple, line.racks))
    return Topic(name, line.partitions, racks, line.topic_id)


def _check_topic_ids(topics: Mapping[str, Topic], protocol: str) -> None:
    if protocol != "consumer":
        return
    seen: dict[tuple[int, int], str] = {}
    for name, topic in topics.items():
        other = name if topic.topic_id is None else seen.setdefault(uuid_bits(topic.topic_id), name)
        if other != name:
            raise InvalidGroup(f"topics.{name}.topicId: {topic.topic_id!r} is also that of {other}")


def _build_member(at: int, line: MemberLine, protocol: str) -> Member:
    if protocol == "zookeeper":
        if line.streams is None:
            raise InvalidGroup(f"members[{at}].streams: missing; under zookeeper give {{topic: streams}}")
    elif line.topics is None:
        raise InvalidGroup(f"members[{at}].topics: missing; give the list of topics subscribed to")
    for name, partitions in line.owned.items():
        if len(set(partitions)) != len(partitions):
            raise InvalidGroup(f"members[{at}].owned.{name}: a partition is listed twice")
    return Member(
        member_id=line.member_id,
        topics=tuple(line.topics or ()),
        instance_id=line.instance_id,
        rack_id=line.rack_id,
        owned=line.owned,
        generation=line.generation,
        streams=line.streams,
    )


def _check_members(members: list[Member]) -> None:
    seen: dict[str, int] = {}
    for at, member in enumerate(members):
        first = seen.setdefault(member.member_id, at)
        if first != at:
            raise InvalidGroup(
                f"members[{at}].memberId: {member.member_id!r} is listed twice, first as members[{first}]"
            )


def _locate_error(raw: Any, error: msgspec.ValidationError) -> str:
    """``members[0].owned.t0[1]: expected `int`, got `str```: the error with the place where it is.

    msgspec names places in lists but not the keys of a mapping: these are tried one by one.
    """
    if isinstance(raw, dict):
        for name, topic in object_items(raw.get("topics")):
            found = first_problem(f"topics.{name}", topic, TopicLine)
            if found:
                return found
        members = raw.get("members")
        for at, member in enumerate(members if isinstance(members, list) else ()):
            for part, shape in (("owned", list[_Partition]), ("streams", _Threads)):
                for name, value in object_items(member.get(part) if isinstance(member, dict) else None):
                    found = first_problem(f"members[{at}].{part}.{name}", value, shape)
                    if found:
                        return found
        for member_id, share in object_items(raw.get("assignment")):
            if not isinstance(share, dict):
                return first_problem(f"assignment.{member_id}", share, _Share) or ""
            for name, value in object_items(share):
                found = first_problem(f"assignment.{member_id}.{name}", value, list[_Partition])
                if found:
                    return found
    return field_message("", error)


#: Side by side in ``--compare``, in the order of Kafka's documentation.
COMPARED = ("range", "roundrobin", "sticky", "cooperative-sticky")


def line_answer(*, compared: bool, explained: bool) -> LineAnswer:
    """What answers a line: :func:`compare`, or :func:`answer` with or without reasons."""
    return comparison_answer if compared else partial(assignment_answer, explained=explained)


def compute_assignment(question: Question, assignor: str) -> Assignment:
    """What ``assignor`` of the question's protocol answers.

    Raises:
        MonitorError: there is no such assignor, or the group contradicts itself.
    """
    chosen = registry.find(question.protocol, assignor)
    if question.protocol == "zookeeper" and question.kafka_version is not None:
        # Only the old consumer changed its rules from version to version.
        return chosen.assign(question.topics, question.members, kafka_version=question.kafka_version)  # type: ignore[call-arg] # theirs alone takes it
    return chosen.assign(question.topics, question.members)


def assignment_answer(data: bytes, *, explained: bool = False) -> dict[str, Any]:
    """The answer to one line: ``assignment``, and with ``explained`` each member's change and its reasons."""
    question = parse_question(data)
    assignor = question.named_assignor()
    assignment = compute_assignment(question, assignor)
    found: dict[str, Any] = {"assignment": {member: tidy(share) for member, share in assignment.items()}}
    if explained:
        reasons = explain(question.protocol, assignor, question.topics, question.members, assignment)
        found["members"] = {member: _reason_document(asdict(reason)) for member, reason in reasons.items()}
    return found


def _reason_document(reason: dict[str, Any]) -> dict[str, Any]:
    reason["decisions"] = list(reason["decisions"])
    return reason


def comparison_answer(data: bytes) -> dict[str, Any]:
    """The same group under each client-side assignor, and what each would move.

    ``{"compared": {assignor: {"assignment", "revoked", "assigned", "kept", "moved", "most", "least"}}}``; an
    assignor that can't answer has its ``error`` there.
    """
    question = parse_question(data)
    answers: dict[str, Any] = {}
    for assignor in COMPARED if question.protocol == "classic" else registry.names(question.protocol):
        try:
            assignment = compute_assignment(question, assignor)
        except MonitorError as error:
            answers[assignor] = error_answer(error)
            continue
        answers[assignor] = _comparison(question, assignment)
    if not answers:
        registry.find(question.protocol, "")  # says which protocols there are
    return {"compared": answers}


def _comparison(question: Question, assignment: Assignment) -> dict[str, Any]:
    owned: dict[str, Share] = {member.member_id: member.owned for member in question.members}
    changes = [
        diff(_with_sorted_partitions(owned.get(m, {})), _with_sorted_partitions(share))
        for m, share in assignment.items()
    ]
    sizes = [size(share) for share in assignment.values()]
    return {
        "assignment": {member: tidy(share) for member, share in assignment.items()},
        "revoked": sum(size(change.revoked) for change in changes),
        "assigned": sum(size(change.assigned) for change in changes),
        "kept": sum(size(change.kept) for change in changes),
        "moved": moved(owned, assignment),
        "most": max(sizes, default=0),
        "least": min(sizes, default=0),
    }


def _with_sorted_partitions(share: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {name: sorted(partitions) for name, partitions in share.items()}
