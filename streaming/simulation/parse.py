"""Parse and validate a scenario. Errors name the event by its number, and the field."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, get_args

from assignors.errors import BadInput
from assignors.java import uuid_bits
from assignors.model import Topic
from streaming.protocols.families import FAMILIES
from streaming.simulation.document import parse_document
from streaming.simulation.scenario import (
    InitialMember,
    InvalidScenario,
    Kind,
    Scenario,
    ScenarioEvent,
    check_events,
)

_KINDS: tuple[Kind, ...] = get_args(Kind)
_TIMES = (
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "scheduled_rebalance_delay_ms",
    "metadata_max_age_ms",
    "heartbeat_ms",
    "consumer_heartbeat_ms",
    "processing_ms",
    "generation",
)
_MAY_BE_ZERO = ("scheduled_rebalance_delay_ms", "metadata_max_age_ms", "processing_ms")
_JOIN = ("topics", "instance_id", "rack_id", "assignors", "group_protocol")
#: What an event may say besides ``at`` and its own word.
_FIELDS: dict[Kind, tuple[str, ...]] = {
    "join": _JOIN,
    "bounce": ("down_ms", *_JOIN),
    "crash": (),
    "leave": (),
    "subscribe": ("topics",),
    "pause": ("down_ms",),
    "partitions": (),
    "coordinator_fails": (),
}
_NEEDS: dict[Kind, tuple[str, ...]] = {
    "bounce": ("down_ms",),
    "pause": ("down_ms",),
    "subscribe": ("topics",),
}
_INT_MAX = 2**31 - 1
#: Of all topics of a scenario: what one cluster holds. Past it a forecast would take all memory.
MAX_PARTITIONS = 200_000


def topic_id(name: str) -> str:
    """Return a Uuid for a topic of a scenario: a pure function of its name, as Kafka prints one."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest()).decode().rstrip("=")


def load_scenario(text: str) -> Scenario:
    """Parse a scenario from YAML or JSON text.

    Raises:
        InvalidScenario: it is neither, or it can't be played; one line that names the event and the field.
    """
    return parse_scenario(parse_document(text))


def parse_scenario(value: Any) -> Scenario:
    """Parse a scenario from a document.

    Raises:
        InvalidScenario: it can't be played.
    """
    if not isinstance(value, dict):
        raise InvalidScenario(f"scenario: a mapping with topics and events is needed, not {_name(value)}")
    _known(value, ("topics", "members", "events", *_TIMES), "scenario")
    for needed in ("topics", "events"):
        if needed not in value:
            raise InvalidScenario(f"scenario: {needed}: missing")
    topics = _topics(value["topics"])
    times = {
        name: _whole(value[name], f"scenario: {name}", least=0 if name in _MAY_BE_ZERO else 1)
        for name in _TIMES
        if name in value
    }
    events = value["events"]
    if not isinstance(events, list):
        raise InvalidScenario(f"scenario: events: a list is needed, not {_name(events)}")
    found = tuple(_event(number, event, topics) for number, event in enumerate(events, 1))
    standing = _members(value.get("members"), topics)
    check_events(found, topics, [one.member for one in standing])
    return Scenario(topics=topics, events=found, members=standing, **times)


def _members(value: Any, topics: Mapping[str, Topic]) -> tuple[InitialMember, ...]:
    """Parse the members that are in the group from the start."""
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise InvalidScenario("scenario: members: a mapping of names to what each owns is needed")
    owners: dict[tuple[str, int], str] = {}
    found = []
    for name, told in value.items():
        where = f"scenario: members.{reprlib.repr(name)}"
        if not _is_name(name):
            raise InvalidScenario(f"{where}: a member's name is text without ~")
        fields = {} if told is None else told
        if not isinstance(fields, dict):
            raise InvalidScenario(f"{where}: a mapping such as {{owned: {{t0: [0]}}}} is needed")
        _known(fields, ("owned", "member_id", *_JOIN), where)
        read = {
            one: _READERS[one](fields[one], f"{where}: {one}", topics)
            for one in (*_JOIN, "member_id")
            if fields.get(one) is not None
        }
        owned = _owned(fields.get("owned"), f"{where}: owned", topics)
        for topic, partitions in owned.items():
            for partition in partitions:
                other = owners.setdefault((topic, partition), name)
                if other != name:
                    raise InvalidScenario(f"{where}: owned.{topic}: {partition} is also {other}'s")
        found.append(InitialMember(name, owned=owned, **read))
    return tuple(found)


def _owned(value: Any, where: str, topics: Mapping[str, Topic]) -> dict[str, list[int]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidScenario(f"{where}: a mapping of topics to partitions is needed, not {_name(value)}")
    found = {}
    for topic in _names(list(value), where, topics):
        partitions = value[topic]
        if not isinstance(partitions, list):
            raise InvalidScenario(f"{where}.{topic}: a list of partitions is needed, not {_name(partitions)}")
        known = sorted({_whole(one, f"{where}.{topic}", least=0) for one in partitions})
        if known and known[-1] >= topics[topic].partitions:
            raise InvalidScenario(f"{where}.{topic}: {known[-1]} is no partition of it")
        if known:
            found[topic] = known
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "~" not in value and value.isprintable()


def _topics(value: Any) -> dict[str, Topic]:
    if not isinstance(value, dict) or not value:
        raise InvalidScenario("scenario: topics: a mapping of names to partition counts is needed")
    topics = {}
    for name, told in value.items():
        where = f"scenario: topics.{name}"
        if not isinstance(name, str):
            raise InvalidScenario(f"{where}: a topic's name is text; write it in quotes")
        racks = None
        count = told
        if isinstance(told, dict):
            _known(told, ("partitions", "racks", "topic_id"), where)
            count = told.get("partitions")
            racks = _racks(told.get("racks"), where)
        count = _whole(count, f"{where}: partitions" if isinstance(told, dict) else where, least=0)
        if racks is not None and len(racks) != count:
            raise InvalidScenario(f"{where}: racks: {len(racks)} entries for {count} partitions")
        given = told.get("topic_id") if isinstance(told, dict) else None
        topics[name] = Topic(name, count, racks, topic_id(name) if given is None else _uuid(given, where))
    _bounded({name: topic.partitions for name, topic in topics.items()}, "scenario: topics")
    return topics


def _uuid(value: Any, where: str) -> str:
    try:
        uuid_bits(_text(value, f"{where}: topic_id", {}))
    except InvalidScenario:
        raise
    except BadInput as error:
        raise InvalidScenario(f"{where}: topic_id: {error}") from error
    return str(value)


def _bounded(counts: Mapping[str, int], where: str) -> None:
    partitions = sum(counts.values())
    if partitions > MAX_PARTITIONS:
        raise InvalidScenario(f"{where}: {partitions} partitions in all; {MAX_PARTITIONS} are the limit")


def _racks(value: Any, where: str) -> tuple[tuple[str, ...], ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        isinstance(racks, list) and all(isinstance(rack, str) for rack in racks) for racks in value
    ):
        raise InvalidScenario(
            f"{where}: racks: a list is needed that holds a list of racks for each partition"
        )
    return tuple(tuple(racks) for racks in value)


def _event(number: int, value: Any, topics: Mapping[str, Topic]) -> ScenarioEvent:
    where = f"event {number}"
    if not isinstance(value, dict):
        raise InvalidScenario(f"{where}: a mapping such as {{at: 0, join: c1}} is needed, not {_name(value)}")
    kind = _kind(value, where)
    told = value[kind]
    where = f"{where} ({kind}{f' {told}' if isinstance(told, str) else ''})"
    _known(value, ("at", kind, *_FIELDS[kind]), where)
    for needed in ("at", *_NEEDS.get(kind, ())):
        if needed not in value:
            raise InvalidScenario(f"{where}: {needed}: missing")
    fields: dict[str, Any] = {"at": _whole(value["at"], f"{where}: at", least=0)}
    if kind == "partitions":
        fields["partitions"] = _counts(told, topics, where)
    elif kind == "coordinator_fails":
        if told is not True:
            raise InvalidScenario(f"{where}: coordinator_fails: true is all that it can be, not {told!r}")
    elif not _is_name(told):
        raise InvalidScenario(
            f"event {number} ({kind}): {kind}: a member's name is needed, text without ~, not {_name(told)}"
        )
    else:
        fields["member"] = told
    for name in _FIELDS[kind]:
        if value.get(name) is not None:
            fields[name] = _READERS[name](value[name], f"{where}: {name}", topics)
    return ScenarioEvent(number=number, kind=kind, **fields)


def _kind(value: Mapping[Any, Any], where: str) -> Kind:
    """Return the kind of the event."""
    kinds = [kind for kind in _KINDS if kind in value]
    if len(kinds) == 1:
        return kinds[0]
    known = {"at", *_KINDS}.union(*_FIELDS.values())
    for key in value:
        if key not in known:
            raise InvalidScenario(f"{where}: {key}: unknown{_meant(str(key), _KINDS)}")
    what = f"both {' and '.join(kinds)}" if kinds else "nothing"
    raise InvalidScenario(f"{where}: says {what}; an event is one of {', '.join(_KINDS)}")


def _counts(value: Any, topics: Mapping[str, Topic], where: str) -> dict[str, int]:
    if not isinstance(value, dict) or not value:
        raise InvalidScenario(f"{where}: partitions: a mapping of topics to their new counts is needed")
    for name in value:
        if name not in topics:
            raise InvalidScenario(
                f"{where}: partitions: {name!r} is no topic of this scenario{_meant(str(name), topics)}"
            )
    counts = {name: _whole(count, f"{where}: partitions.{name}", least=0) for name, count in value.items()}
    _bounded(counts, f"{where}: partitions")
    return counts


def _names(value: Any, where: str, topics: Mapping[str, Topic]) -> tuple[str, ...]:
    found = _texts(value, where, topics)
    for name in found:
        if name not in topics:
            raise InvalidScenario(f"{where}: {name!r} is no topic of this scenario{_meant(name, topics)}")
    return tuple(dict.fromkeys(found))


def _texts(value: Any, where: str, topics: Mapping[str, Topic]) -> tuple[str, ...]:
    del topics
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidScenario(f"{where}: a list of names is needed, not {_name(value)}")
    return tuple(value)


def _assignors(value: Any, where: str, topics: Mapping[str, Topic]) -> tuple[str, ...]:
    known = dict.fromkeys(name for family in FAMILIES.values() for name in family.carries)
    found = _texts(value, where, topics)
    for name in found:
        if name not in known:
            raise InvalidScenario(f"{where}: {name!r} is none of {', '.join(known)}{_meant(name, known)}")
    return found


def _text(value: Any, where: str, topics: Mapping[str, Topic]) -> str:
    del topics
    if not isinstance(value, str) or not value:
        raise InvalidScenario(f"{where}: text is needed, not {_name(value)}")
    return value


def _protocol(value: Any, where: str, topics: Mapping[str, Topic]) -> str:
    del topics
    if value not in ("classic", "consumer"):
        raise InvalidScenario(f"{where}: {value!r} is neither classic nor consumer")
    return str(value)


def _down(value: Any, where: str, topics: Mapping[str, Topic]) -> int:
    del topics
    return _whole(value, where, least=0)


_READERS: dict[str, Callable[[Any, str, Mapping[str, Topic]], Any]] = {
    "topics": _names,
    "instance_id": _text,
    "member_id": _text,
    "rack_id": _text,
    "assignors": _assignors,
    "group_protocol": _protocol,
    "down_ms": _down,
}


def _known(value: Mapping[Any, Any], known: tuple[str, ...], where: str) -> None:
    for key in value:
        if key not in known:
            raise InvalidScenario(
                f"{where}: {key}: unknown{_meant(str(key), known)}; it takes {', '.join(known)}"
            )


def _meant(word: str, known: Any) -> str:
    close = get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _whole(value: Any, where: str, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _INT_MAX:
        raise InvalidScenario(f"{where}: a whole number from {least} up is needed, not {reprlib.repr(value)}")
    return value


def _name(value: Any) -> str:
    return "nothing" if value is None else reprlib.repr(value)
