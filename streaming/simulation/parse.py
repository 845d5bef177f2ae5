"""Parse and validate a scenario. Errors name the number of the event, and the field."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from hashlib import blake2b
from typing import Annotated, Any, Literal, TypeVar, get_args

from msgspec import Meta, Struct, ValidationError, convert, defstruct, structs

from assignors.errors import BadInput
from assignors.java import uuid_bits
from assignors.model import Topic
from streaming.protocols.families import FAMILIES
from streaming.simulation.document import parse_document
from streaming.simulation.scenario import InitialMember, InvalidScenario, Kind, Scenario, ScenarioEvent, plan_events

#: The most partitions of a scenario, as many as one cluster has: a forecast of more would need too much memory.
MAX_PARTITIONS = 200_000
#: The most characters of an error that quotes the scenario.
_MAX_QUOTED = 200

_Converted = TypeVar("_Converted")
_Whole = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Text = Annotated[str, Meta(min_length=1)]


class _Config(Struct, kw_only=True, forbid_unknown_fields=True):
    topics: tuple[str, ...] | None = None
    instance_id: _Text | None = None
    rack_id: _Text | None = None
    assignors: tuple[str, ...] | None = None
    group_protocol: Literal["classic", "consumer"] | None = None


class _Member(_Config):
    owned: dict[str, list[_Whole]] | None = None
    member_id: _Text | None = None


class _Topic(Struct, forbid_unknown_fields=True):
    partitions: _Whole
    racks: tuple[tuple[str, ...], ...] | None = None
    topic_id: str | None = None


class _Document(Struct, kw_only=True, forbid_unknown_fields=True):
    topics: dict[str, Any]
    events: list[Any]
    members: dict[str, Any] | None = None
    session_timeout_ms: _Positive = 45_000
    rebalance_timeout_ms: _Positive = 60_000
    scheduled_rebalance_delay_ms: _Whole = 300_000
    metadata_max_age_ms: _Whole = 0
    heartbeat_ms: _Positive | None = None
    consumer_heartbeat_ms: _Positive | None = None
    processing_ms: _Whole | None = None
    generation: _Positive = 1


def _entry(kind: Kind, subject: Any, *fields: tuple[str, Any], base: type[Struct] = Struct) -> type[Struct]:
    named = [("at", _Whole), (kind, subject), *fields]
    return defstruct(kind, named, bases=(base,), kw_only=True, forbid_unknown_fields=True)


_KINDS: tuple[Kind, ...] = get_args(Kind)
#: Type of an event entry, by the event's kind.
_ENTRIES: dict[Kind, type[Struct]] = {
    "join": _entry("join", str, base=_Config),
    "bounce": _entry("bounce", str, ("down_ms", _Whole), base=_Config),
    "crash": _entry("crash", str),
    "leave": _entry("leave", str),
    "subscribe": _entry("subscribe", str, ("topics", tuple[str, ...])),
    "pause": _entry("pause", str, ("down_ms", _Whole)),
    "partitions": _entry("partitions", dict[str, _Whole]),
    "coordinator_fails": _entry("coordinator_fails", bool),
}


def uuid_of(name: str) -> str:
    """Return a Uuid in Kafka's format, derived from a name."""
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest()).decode().rstrip("=")


def load_scenario(text: str) -> Scenario:
    """Parse a scenario from YAML or JSON text.

    Raises:
        InvalidScenario: the text is neither, or the scenario is impossible; the message names the event and field.
    """
    return parse_scenario(parse_document(text))


def parse_scenario(value: Any) -> Scenario:
    """Parse a scenario from a document."""
    document = _convert(value, _Document, "scenario")
    topics = {name: _topic(name, told) for name, told in document.topics.items()}
    if not topics:
        raise InvalidScenario("scenario: topics: none")
    _check_partitions([topic.partitions for topic in topics.values()], "scenario: topics")
    members = _members(document.members or {}, topics)
    events = tuple(_event(number, event, topics) for number, event in enumerate(document.events, 1))
    scenario = Scenario(**{**structs.asdict(document), "topics": topics, "events": events, "members": members})
    plan_events(scenario)  # refuses impossible events
    return scenario


def _convert(value: Any, kind: type[_Converted], where: str) -> _Converted:
    """Return the value converted to ``kind``; an error begins with ``where`` and names the field."""
    try:
        return convert(value, kind)
    except ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        if unknown := re.search("unknown field `(.*)`", message):
            fields = kind.__struct_fields__  # type: ignore[attr-defined] # only structs refuse fields
            hint = _suggestion(unknown[1], fields)
            message = f"{unknown[1]}: unknown{hint}; it takes {', '.join(fields)}"
        elif missing := re.search("missing required field `(.*)`", message):
            message = f"{missing[1]}: missing"
        field = f"{path.strip('.`')}: " if path else ""
        raise InvalidScenario(f"{where}: {' '.join((field + message).split()):.{_MAX_QUOTED}}") from error


def _topic(name: str, value: Any) -> Topic:
    where = f"scenario: topics.{name}"
    fields = _convert(value, _Topic, where) if isinstance(value, dict) else _Topic(_convert(value, _Whole, where))
    if fields.racks is not None and len(fields.racks) != fields.partitions:
        raise InvalidScenario(f"{where}: racks: {len(fields.racks)} entries for {fields.partitions} partitions")
    if fields.topic_id is not None:
        try:
            uuid_bits(fields.topic_id)
        except BadInput as error:
            raise InvalidScenario(f"{where}: topic_id: {error}") from error
    return Topic(name, fields.partitions, fields.racks, fields.topic_id or uuid_of(name))


def _check_partitions(counts: Collection[int], where: str) -> None:
    if sum(counts) > MAX_PARTITIONS:
        raise InvalidScenario(f"{where}: {sum(counts)} partitions in all; {MAX_PARTITIONS} are the limit")


def _members(entries: Mapping[str, Any], topics: Mapping[str, Topic]) -> tuple[InitialMember, ...]:
    owners: dict[tuple[str, int], str] = {}
    members = []
    for name, value in entries.items():
        where = f"scenario: members.{name!r}"
        if not _is_name(name):
            raise InvalidScenario(f"{where}: a member's name is text without ~")
        fields = structs.asdict(_convert({} if value is None else value, _Member, where))
        owned = {topic: sorted({*partitions}) for topic, partitions in (fields.pop("owned") or {}).items()}
        _known_topics(owned, f"{where}: owned", topics)
        for topic, partitions in owned.items():
            for partition in partitions:
                if partition >= topics[topic].partitions:
                    raise InvalidScenario(f"{where}: owned.{topic}: {partition} is no partition of it")
                owner = owners.setdefault((topic, partition), name)
                if owner != name:
                    raise InvalidScenario(f"{where}: owned.{topic}: {partition} is also {owner}'s")
        owned = {topic: partitions for topic, partitions in owned.items() if partitions}
        members.append(InitialMember(name, owned=owned, **_config(fields, where, topics)))
    return tuple(members)


def _config(fields: Mapping[str, Any], where: str, topics: Mapping[str, Topic]) -> dict[str, Any]:
    config = {name: value for name, value in fields.items() if value is not None}
    if "topics" in config:
        config["topics"] = tuple(dict.fromkeys(config["topics"]))
        _known_topics(config["topics"], f"{where}: topics", topics)
    assignors = dict.fromkeys(name for family in FAMILIES.values() for name in family.carries)
    for name in config.get("assignors", ()):
        if name not in assignors:
            hint = _suggestion(name, assignors)
            raise InvalidScenario(f"{where}: assignors: {name!r} is none of {', '.join(assignors)}{hint}")
    return config


def _event(number: int, value: Any, topics: Mapping[str, Topic]) -> ScenarioEvent:
    where = f"event {number}"
    if not isinstance(value, dict):
        raise InvalidScenario(f"{where}: a mapping such as {{at: 0, join: c1}} is needed, not {value!r:.60}")
    kind = _kind(value, where)
    named = f" {value[kind]:.60}" if isinstance(value[kind], str) and _is_name(value[kind]) else ""
    where = f"{where} ({kind}{named})"
    fields = structs.asdict(_convert(value, _ENTRIES[kind], where))
    subject = fields.pop(kind)
    config = _config(fields, where, topics)
    if kind == "partitions":
        if not subject:
            raise InvalidScenario(f"{where}: partitions: a mapping of topics to their new counts is needed")
        _known_topics(subject, f"{where}: partitions", topics)
        _check_partitions(subject.values(), f"{where}: partitions")
        return ScenarioEvent(number, kind=kind, partitions=subject, **config)
    if kind == "coordinator_fails":
        if not subject:
            raise InvalidScenario(f"{where}: coordinator_fails: true is all that it can be")
        return ScenarioEvent(number, kind=kind, **config)
    if not _is_name(subject):
        raise InvalidScenario(f"{where}: {kind}: a member's name is needed, printable text without ~")
    return ScenarioEvent(number, kind=kind, member=subject, **config)


def _kind(value: Mapping[Any, Any], where: str) -> Kind:
    kinds = [kind for kind in _KINDS if kind in value]
    if len(kinds) == 1:
        return kinds[0]
    fields = {name for entry in _ENTRIES.values() for name in entry.__struct_fields__}
    for key in value:
        if key not in fields:
            raise InvalidScenario(f"{where}: {key}: unknown{_suggestion(str(key), _KINDS)}")
    what = f"both {' and '.join(kinds)}" if kinds else "nothing"
    raise InvalidScenario(f"{where}: says {what}; an event is one of {', '.join(_KINDS)}")


def _known_topics(names: Iterable[str], where: str, topics: Mapping[str, Topic]) -> None:
    for name in names:
        if name not in topics:
            raise InvalidScenario(f"{where}: {name!r} is no topic of this scenario{_suggestion(name, topics)}")


def _is_name(name: str) -> bool:
    return bool(name) and "~" not in name and name.isprintable()


def _suggestion(word: str, words: Iterable[str]) -> str:
    close = get_close_matches(word, list(words), 1)
    return f" (did you mean {close[0]}?)" if close else ""
