"""The commands ``check`` (checks assignments and placements against Kafka's rules) and ``place`` (places replicas)."""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec import Meta, Struct

from assignors import registry
from assignors.assignment import diff_members
from assignors.errors import BadInput, InvalidGroup
from assignors.invariants import check as broken_rules
from assignors.invariants import make_group, rules_for
from assignors.java import JavaRandom
from assignors.placement.evenness import Evenness, check_placement
from assignors.placement.replicas import Broker, InvalidPlacement, Placement, assign_replicas, place_striped
from streaming.cli.assignment import GroupQuery, compute_assignment, parse_group, sort_shares
from streaming.cli.json_lines import answer_lines, read_object, standard_input
from streaming.cli.options import AsJson, MaxLineBytes, TableOption, flag, offline, option
from streaming.cli.output import writer

PlacementMethod = Literal["admin-utils", "striped"]
_BROKER_PATTERN = re.compile(r"(\d{1,10})(?::([^:]*))?(:fenced)?", re.ASCII)


def parse_brokers(text: str) -> list[Broker]:
    """Parse ``0:r1,1:r3,2``: ids with optional racks; ``3:r1:fenced`` and ``3::fenced`` are fenced brokers."""
    if not text.strip():
        raise InvalidPlacement("brokers: missing; give at least one broker")
    brokers = []
    for part in text.split(","):
        read = _BROKER_PATTERN.fullmatch(part.strip())
        if read is None or int(read[1]) > 2**31 - 1:
            raise InvalidPlacement(f"brokers: {part.strip()!r} is not ID, ID:RACK or ID:RACK:fenced")
        brokers.append(Broker(int(read[1]), read[2] or None, fenced=read[3] is not None))
    return brokers


def place_replicas(
    brokers: str,
    partitions: int,
    replication_factor: int,
    *,
    placer: PlacementMethod = "admin-utils",
    start_index: int | None = None,
    shift: int | None = None,
    start_partition: int = 0,
    seed: int | None = None,
) -> Placement:
    """Return the brokers of every new partition, the preferred leader first; parameters that are None are random."""
    with _name_options_in_errors():
        parsed = parse_brokers(brokers)
        random = JavaRandom(secrets.randbits(48) if seed is None else seed)
        if placer == "striped":
            if start_index is not None or shift is not None:
                name = "shift" if start_index is None else "start-index"
                raise InvalidPlacement(f"{name}: not used by the striped placer, whose offsets are random; see --seed")
            return place_striped(parsed, partitions, replication_factor, random, start_partition=start_partition)
        if any(broker.fenced for broker in parsed):
            raise InvalidPlacement("brokers: admin-utils supports no fenced brokers; leave them out, or use striped")
        options: dict[str, Any] = {"start_index": start_index, "shift": shift, "start_partition": start_partition}
        return assign_replicas(parsed, partitions, replication_factor, random=random, **options)


@contextmanager
def _name_options_in_errors() -> Iterator[None]:
    try:
        yield
    except InvalidPlacement as error:
        field, colon, problem = str(error).partition(":")
        raise type(error)(f"--{field.removeprefix('--').replace('_', '-')}{colon}{problem}") from error


_MAX_ID = 2**31 - 1
_Replicas = list[Annotated[int, Meta(ge=0, le=_MAX_ID)]]


class PlacementLine(Struct, frozen=True, kw_only=True):
    """An input line of ``check`` with a replica placement."""

    brokers: str
    placement: dict[str, _Replicas | dict[str, _Replicas]]


_decoder = msgspec.json.Decoder(PlacementLine)


def check_answer(data: bytes, *, exact: bool = False) -> dict[str, Any]:
    """Return the answer to one input line: ``{"ok", "rules", "violations"}``, and counts and moves of a placement.

    If ``exact``, the assignment must equal the assignment that the line's assignor computes.
    """
    if _is_placement(data):
        return _placement_answer(data)
    query = parse_group(data)
    if query.assignment is None:
        raise InvalidGroup("assignment: missing; give the observed one, {member: {topic: [partition]}}")
    assignor = query.assignor or ""
    if query.assignor is not None or exact:
        expected = compute_assignment(query, query.get_assignor())
    elif not registry.names(query.protocol):
        registry.find(query.protocol, "")  # raises with the list of protocols
    group = (query.protocol, assignor, query.topics, query.members, query.assignment)
    rules = rules_for(query.protocol, assignor, make_group(*group))
    violations = [str(violation) for violation in broken_rules(*group, rules=rules)]
    if exact:
        rules.append("exact")
        violations += _differing_members(query, expected)
    return {"ok": not violations, "rules": rules, "violations": violations}


def _differing_members(query: GroupQuery, expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        f"exact: {member} {what} {name}-{','.join(map(str, partitions))} under {query.assignor}"
        for member, change in diff_members(sort_shares(query.assignment or {}), sort_shares(expected)).items()
        for what, share in (("should not hold", change.revoked), ("should hold", change.assigned))
        for name, partitions in share.items()
    ]


def _is_placement(data: bytes) -> bool:
    try:
        return "placement" in msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False  # the parser of groups reports the error


def _placement_answer(data: bytes) -> dict[str, Any]:
    line = read_object(data, _decoder)
    placed: dict[Any, list[int]] = {}
    for name, value in line.placement.items():
        topic, shares = (f"{name}-", value) if isinstance(value, dict) else ("", {name: value})
        for partition, replicas in shares.items():
            key = f"{topic}{_parse_partition(partition)}"
            if key in placed:
                raise BadInput(f"placement: partition {key} is listed twice")
            placed[key] = replicas
    if not placed:
        raise BadInput("placement: contains no partition")
    result = check_placement(parse_brokers(line.brokers), placed)
    return {
        "ok": result.is_even,
        "rules": ["rack-spread", "even-replicas", "even-leaders"],
        "violations": _placement_violations(result),
        "leaders": {str(broker): count for broker, count in result.leaders.items()},
        "replicas": {str(broker): count for broker, count in result.replicas.items()},
        "moves": [{"partition": m.partition, "from": m.source, "to": m.target} for m in result.moves],
        "leaderChanges": [{"partition": m.partition, "from": m.source, "to": m.target} for m in result.leader_changes],
    }


def _parse_partition(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_ID)) and int(text) <= _MAX_ID):
        raise BadInput(f"placement: {text!r} is not a partition number, 0 to {_MAX_ID}")
    return int(text)


def _placement_violations(result: Evenness) -> list[str]:
    violations = [
        f"rack-spread: partition {partition} has two replicas in a rack while another rack has none"
        for partition in result.rack_gaps
    ]
    for name, counts, is_shown in (
        ("even-replicas", result.replicas, bool(result.moves)),
        ("even-leaders", result.leaders, bool(result.leader_changes)),
    ):
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[most] - counts[least] > 1 and is_shown:
            violations.append(f"{name}: broker {most} has {counts[most]}, broker {least} {counts[least]}")
    return violations


@offline(
    """echo '{"brokers": "0:r1,1:r2", "placement": {"0": [0, 1], "1": [0, 1]}}' | rebalance-monitor check --table"""
)
def check(
    *,
    exact: bool = flag("--exact", "The assignment must equal the one that the assignor computes."),
    as_json: AsJson = False,
    as_table: TableOption = False,
    max_line_bytes: MaxLineBytes = None,
) -> None:
    """Check assignments and replica placements against Kafka's rules.

    Reads JSON Lines from standard input: groups as for assign, with the observed "assignment"; or placements:
    {"brokers": "0:r1,1:r2", "placement": {"0": [0, 1]}}.

    The exit status is 1 if a rule is broken, and 2 if a line can't be used.
    """
    write, all_results = writer("check", as_json=as_json, as_table=as_table), set[bool]()

    def answer(data: bytes) -> dict[str, Any]:
        result = check_answer(data, exact=exact)
        all_results.add(result["ok"])
        return result

    raise typer.Exit(answer_lines(standard_input(), answer, write, limit=max_line_bytes) or int(False in all_results))


@offline("rebalance-monitor place --brokers 0:r1,1:r2,2:r3 --partitions 6 --replication-factor 3 --start-index 0")
def place(
    *,
    brokers: str = option("ID[:RACK],…", "Brokers; striped also takes ID:RACK:fenced.", ...),
    partitions: int = option("N", "New partitions.", ...),
    replication_factor: int = option("N", "Replicas of each partition.", ...),
    placer: PlacementMethod = flag(
        "--placer", "admin-utils: ZooKeeper clusters and tools. striped: KRaft controllers.", "admin-utils"
    ),
    start_index: int | None = option("N", "admin-utils: broker of partition 0.", None, show_default="random"),
    shift: int | None = option(
        "N", "admin-utils: shift of the first followers.", None, show_default="start index, or random"
    ),
    start_partition: int = option("N", "Number of the first new partition.", 0),
    seed: int | None = option("N", "Seed of java.util.Random.", None, show_default="random"),
    as_json: AsJson = False,
    as_table: TableOption = False,
) -> None:
    """Compute the replica placement of new partitions: their brokers, the preferred leader first."""
    start_options: dict[str, Any] = {"start_index": start_index, "shift": shift, "start_partition": start_partition}
    placement = place_replicas(brokers, partitions, replication_factor, placer=placer, seed=seed, **start_options)
    write = writer("placement", as_json=as_json, as_table=as_table)
    write({str(partition): replicas for partition, replicas in placement.items()})
