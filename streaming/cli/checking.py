"""``check`` and ``place``: the rules of assignments and placements, and replicas of new partitions."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
from msgspec import Meta, Struct

from assignors import registry
from assignors.diff import diff_members
from assignors.errors import BadInput, InvalidGroup
from assignors.invariants import check, group, rules_for
from assignors.java import JavaRandom
from assignors.placement import (
    Broker,
    Evenness,
    InvalidPlacement,
    Placement,
    assign_replicas,
    check_placement,
    place_striped,
)
from streaming.cli.assignment import Question, compute_assignment, parse_question
from streaming.cli.json_lines import answer_lines, field_message, first_problem, object_items, read_object

Placer = Literal["admin-utils", "striped"]

_BROKER = re.compile(r"(\d{1,10})(?::([^:]*))?(:fenced)?", re.ASCII)


def parse_brokers(text: str) -> list[Broker]:
    """``0:r1,1:r3,2``: ids, each with a rack if it has one; ``3:r1:fenced`` and ``3::fenced`` are out of service.

    Raises:
        InvalidPlacement: the message shows the part that can't be read.
    """
    if not text.strip():
        raise InvalidPlacement("brokers: none given")
    brokers = []
    for part in text.split(","):
        read = _BROKER.fullmatch(part.strip())
        if read is None or int(read[1]) > 2**31 - 1:
            raise InvalidPlacement(f"brokers: {part.strip()!r} is not ID, ID:RACK or ID:RACK:fenced")
        brokers.append(Broker(int(read[1]), read[2] or None, fenced=read[3] is not None))
    return brokers


def place_replicas(
    brokers: str,
    partitions: int,
    replication_factor: int,
    *,
    placer: Placer = "admin-utils",
    start_index: int | None = None,
    shift: int | None = None,
    start_partition: int = 0,
    seed: int | None = None,
) -> Placement:
    """Every new partition's brokers, the preferred leader first; what is not given is drawn at random.

    Raises:
        MonitorError: the question contradicts itself.
    """
    with _named_as_options():
        parsed = parse_brokers(brokers)
        random = JavaRandom(secrets.randbits(48) if seed is None else seed)
        if placer == "striped":
            for name, given in (("start-index", start_index), ("shift", shift)):
                if given is not None:
                    raise InvalidPlacement(
                        f"{name}: the striped placer has none; it draws offsets, see --seed"
                    )
            return place_striped(
                parsed, partitions, replication_factor, random, start_partition=start_partition
            )
        if any(broker.fenced for broker in parsed):
            raise InvalidPlacement(
                "brokers: admin-utils knows no fenced brokers; leave them out, or use striped"
            )
        return assign_replicas(
            parsed,
            partitions,
            replication_factor,
            start_index=start_index,
            shift=shift,
            start_partition=start_partition,
            random=random,
        )


@contextmanager
def _named_as_options() -> Iterator[None]:
    """A refusal names the field; a person typed an option."""
    try:
        yield
    except InvalidPlacement as error:
        field, colon, problem = str(error).partition(":")
        raise type(error)(f"--{field.removeprefix('--').replace('_', '-')}{colon}{problem}") from error


#: Exit status when a rule is broken.
VIOLATION = 1

_LAST = 2**31 - 1
_DIGITS = len(str(_LAST))
_Broker = Annotated[int, Meta(ge=0, le=_LAST)]
_Replicas = list[_Broker]


class PlacementLine(Struct, frozen=True, kw_only=True):
    """A line that asks about a placement."""

    brokers: str
    placement: dict[str, _Replicas | dict[str, _Replicas]]


_decoder = msgspec.json.Decoder(PlacementLine)


def check_lines(
    source: BinaryIO, write: Callable[[Any], None], *, exact: bool = False, limit: int | None = None
) -> int:
    """Answer every line; 2 when one could not be used, else 1 when a rule is broken, else 0."""
    broken = False

    def checked(data: bytes) -> dict[str, Any]:
        nonlocal broken
        found = check_answer(data, exact=exact)
        broken = broken or not found["ok"]
        return found

    return answer_lines(source, checked, write, limit=limit) or (VIOLATION if broken else 0)


def check_answer(data: bytes, *, exact: bool = False) -> dict[str, Any]:
    """``{"ok", "rules", "violations"}`` of one line; a placement adds what was counted and what to move.

    With ``exact`` the assignment must also be the very one the line's assignor computes.

    Raises:
        MonitorError: the line can't be used.
    """
    if _is_placement(data):
        return _placement_answer(data)
    question = parse_question(data)
    if question.assignment is None:
        raise InvalidGroup("assignment: missing; give what was observed, {member: {topic: [partition]}}")
    assignor = question.assignor or ""
    if question.assignor is not None or exact:
        expected = compute_assignment(question, question.named_assignor())
    elif not registry.names(question.protocol):
        registry.find(question.protocol, "")  # says which protocols there are
    found = group(question.protocol, assignor, question.topics, question.members, question.assignment)
    rules = rules_for(question.protocol, assignor, found)
    violations = [
        str(violation)
        for violation in check(
            question.protocol, assignor, question.topics, question.members, question.assignment, rules=rules
        )
    ]
    if exact:
        rules.append("exact")
        violations += _exact_violations(question, expected)
    return {"ok": not violations, "rules": rules, "violations": violations}


def _exact_violations(question: Question, expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    observed = question.assignment or {}
    violations = []
    for member, change in diff_members(_sorted(observed), _sorted(expected)).items():
        for what, share in (("should not hold", change.revoked), ("should hold", change.assigned)):
            for name, partitions in share.items():
                listed = ",".join(map(str, partitions))
                violations.append(f"exact: {member} {what} {name}-{listed} under {question.assignor}")
    return violations


def _sorted(assignment: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[int]]]:
    return {m: {name: sorted(held) for name, held in share.items()} for m, share in assignment.items()}


def _is_placement(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=_Shape).placement is not msgspec.UNSET
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False  # the parser of the group says what is wrong


class _Shape(Struct):
    placement: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _placement_answer(data: bytes) -> dict[str, Any]:
    line = read_object(data, _decoder, _locate_placement_error)
    placed: dict[Any, list[int]] = {}
    for name, value in line.placement.items():
        of_topic = isinstance(value, dict)
        for partition, replicas in value.items() if isinstance(value, dict) else [(name, value)]:
            key = f"{name}-{_parse_partition(partition)}" if of_topic else str(_parse_partition(partition))
            if key in placed:
                raise BadInput(f"placement: partition {key} is listed twice")
            placed[key] = replicas
    if not placed:
        raise BadInput("placement: no partitions")
    found = check_placement(parse_brokers(line.brokers), placed)
    return {
        "ok": found.even,
        "rules": ["rack-spread", "even-replicas", "even-leaders"],
        "violations": _placement_violations(found),
        "leaders": {str(broker): count for broker, count in found.leaders.items()},
        "replicas": {str(broker): count for broker, count in found.replicas.items()},
        "moves": [{"partition": m.partition, "from": m.source, "to": m.target} for m in found.moves],
        "leaderChanges": [
            {"partition": m.partition, "from": m.source, "to": m.target} for m in found.leader_changes
        ],
    }


def _locate_placement_error(raw: Any, error: msgspec.ValidationError) -> str:
    """The error with the partition where it is."""
    for name, value in object_items(raw.get("placement")):
        inside = object_items(value)
        for partition, replicas in inside or [("", value)]:
            path = f"placement.{name}" + (f".{partition}" if inside else "")
            found = first_problem(path, replicas, _Replicas)
            if found:
                return found
    return field_message("", error)


def _parse_partition(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) <= _LAST):
        raise BadInput(f"placement: {text!r} is no partition number, 0 to {_LAST}")
    return int(text)


def _placement_violations(found: Evenness) -> list[str]:
    violations = [
        f"rack-spread: partition {partition} has two replicas in a rack while another rack has none"
        for partition in found.rack_gaps
    ]
    for name, spread, counts, helped in (
        ("even-replicas", found.replica_spread, found.replicas, bool(found.moves)),
        ("even-leaders", found.leader_spread, found.leaders, bool(found.leader_changes)),
    ):
        if spread > 1 and helped:
            most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
            violations.append(f"{name}: broker {most} has {counts[most]}, broker {least} {counts[least]}")
    return violations
