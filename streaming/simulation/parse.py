"""Parser and validation of scenarios in YAML or JSON; errors contain the number of the event and the field's name."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import yaml
from msgspec import Meta, Struct, ValidationError, convert, defstruct, structs

from assignors.errors import BadInput
from assignors.java import uuid_bits, uuid_of
from assignors.model import Topic
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.protocols.vocabulary import Client, Owner
from streaming.simulation.scenario import InvalidScenario, Kind, Scenario, ScenarioEvent, plan_events

#: Largest sizes of a scenario, in characters: JSON has room for 100,000 events; YAML is parsed 100 times more slowly.
MAX_JSON_BYTES = 16 * 2**20
MAX_YAML_BYTES = 2**20
#: Largest depth of nested values; a scenario needs five levels.
MAX_DEPTH = 20
#: Largest number of digits of a number; valid numbers in a scenario have at most ten digits.
_MAX_DIGITS = 40
#: Tags of YAML 1.1 for plain values; dates are read as text.
_SCALAR_TAGS = ("null", "bool", "int", "float")
#: The largest number of partitions of a scenario, which is that of a whole cluster; more would need too much memory.
MAX_PARTITIONS = 200_000
#: The largest number of characters that an error quotes from the scenario.
_MAX_QUOTED_CHARACTERS = 200
_Converted = TypeVar("_Converted")
_WholeNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_PositiveInt = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_NonEmptyText = Annotated[str, Meta(min_length=1)]


class _ConfigInput(Struct, kw_only=True, forbid_unknown_fields=True):
    topics: tuple[str, ...] | None = None
    instance_id: _NonEmptyText | None = None
    rack_id: _NonEmptyText | None = None
    assignors: tuple[str, ...] | None = None
    group_protocol: Literal["classic", "consumer"] | None = None


class _MemberInput(_ConfigInput):
    owned: dict[str, list[_WholeNumber]] | None = None
    member_id: _NonEmptyText | None = None


class _Topic(Struct, forbid_unknown_fields=True):
    partitions: _WholeNumber
    racks: tuple[tuple[str, ...], ...] | None = None
    topic_id: str | None = None


class _ScenarioInput(Struct, kw_only=True, forbid_unknown_fields=True):
    topics: dict[str, Any]
    events: list[Any]
    members: dict[str, Any] | None = None
    session_timeout_ms: _PositiveInt = 45_000
    rebalance_timeout_ms: _PositiveInt = 60_000
    scheduled_rebalance_delay_ms: _WholeNumber = 300_000
    metadata_max_age_ms: _WholeNumber = 0
    heartbeat_ms: _PositiveInt | None = None
    consumer_heartbeat_ms: _PositiveInt | None = None
    processing_ms: _WholeNumber | None = None
    generation: _PositiveInt = 1


def _entry_type(kind: Kind, subject: Any, *fields: tuple[str, Any], base: type[Struct] = Struct) -> type[Struct]:
    named = [("at", _WholeNumber), (kind, subject), *fields]
    return defstruct(kind, named, bases=(base,), kw_only=True, forbid_unknown_fields=True)


#: Type of an event entry, by the kind of the event.
_ENTRY_TYPES: dict[Kind, type[Struct]] = {
    "join": _entry_type("join", str, base=_ConfigInput),
    "bounce": _entry_type("bounce", str, ("down_ms", _WholeNumber), base=_ConfigInput),
    "crash": _entry_type("crash", str),
    "leave": _entry_type("leave", str),
    "subscribe": _entry_type("subscribe", str, ("topics", tuple[str, ...])),
    "pause": _entry_type("pause", str, ("down_ms", _WholeNumber)),
    "partitions": _entry_type("partitions", dict[str, _WholeNumber]),
    "coordinator_fails": _entry_type("coordinator_fails", bool),
}


def load_scenario(text: str) -> Scenario:
    """Parse a scenario from YAML or JSON text; an InvalidScenario names the event and the field."""
    return parse_scenario(parse_document(text))


def parse_scenario(value: Any) -> Scenario:
    """Parse a scenario from a document of plain values."""
    document = _convert(value, _ScenarioInput, "scenario")
    topics = {name: _topic(name, entry) for name, entry in document.topics.items()}
    if not topics:
        raise InvalidScenario("scenario: topics: missing; a scenario needs a topic")
    _check_partitions([topic.partitions for topic in topics.values()], "scenario: topics")
    members = _members(document.members or {}, topics)
    events = tuple(_event(number, event, topics) for number, event in enumerate(document.events, 1))
    scenario = Scenario(**{**structs.asdict(document), "topics": topics, "events": events, "members": members})
    plan_events(scenario)  # This call raises InvalidScenario for impossible events.
    return scenario


def _convert(value: Any, kind: type[_Converted], where: str) -> _Converted:
    """Return the value converted to ``kind``; the message of an error begins with ``where`` and names the field."""
    try:
        return convert(value, kind)
    except ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        if unknown := re.search("unknown field `(.*)`", message):
            fields = kind.__struct_fields__  # type: ignore[attr-defined] # only structs refuse fields
            message = f"{unknown[1]}: unknown{_suggestion(unknown[1], fields)}; it takes {', '.join(fields)}"
        elif missing := re.search("missing required field `(.*)`", message):
            message = f"{missing[1]}: missing"
        field = f"{path.strip('.`')}: " if path else ""
        raise InvalidScenario(f"{where}: {' '.join((field + message).split()):.{_MAX_QUOTED_CHARACTERS}}") from error


def _topic(name: str, value: Any) -> Topic:
    where = f"scenario: topics.{name}"
    fields = _convert(value, _Topic, where) if isinstance(value, dict) else _Topic(_convert(value, _WholeNumber, where))
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
        raise InvalidScenario(f"{where}: {sum(counts)} partitions in all topics; the limit is {MAX_PARTITIONS}")


def _members(entries: Mapping[str, Any], topics: Mapping[str, Topic]) -> tuple[Owner, ...]:
    owners: dict[tuple[str, int], str] = {}
    members = []
    for name, value in entries.items():
        where = f"scenario: members.{name!r}"
        if not _is_name(name):
            raise InvalidScenario(f"{where}: a member's name is text without ~")
        fields = structs.asdict(_convert({} if value is None else value, _MemberInput, where))
        owned = {topic: sorted({*partitions}) for topic, partitions in (fields.pop("owned") or {}).items()}
        _known_topics(owned, f"{where}: owned", topics)
        for topic, partitions in owned.items():
            for partition in partitions:
                if partition >= topics[topic].partitions:
                    raise InvalidScenario(f"{where}: owned.{topic}: {partition} is not a partition of the topic")
                owner = owners.setdefault((topic, partition), name)
                if owner != name:
                    raise InvalidScenario(f"{where}: owned.{topic}: {partition} is also owned by {owner}")
        owned = {topic: partitions for topic, partitions in owned.items() if partitions}
        member_id = fields.pop("member_id")
        client = Client(name, **{"topics": tuple(topics), **_parse_config(fields, where, topics)})
        members.append(Owner(client, owned, member_id))
    return tuple(members)


def _parse_config(fields: Mapping[str, Any], where: str, topics: Mapping[str, Topic]) -> dict[str, Any]:
    config = {name: value for name, value in fields.items() if value is not None}
    if "topics" in config:
        config["topics"] = tuple(dict.fromkeys(config["topics"]))
        _known_topics(config["topics"], f"{where}: topics", topics)
    assignors = dict.fromkeys(name for family in PROTOCOL_FAMILIES.values() for name in family.assignors)
    for name in config.get("assignors", ()):
        if name not in assignors:
            hint = _suggestion(name, assignors)
            raise InvalidScenario(f"{where}: assignors: {name!r} is not one of {', '.join(assignors)}{hint}")
    return config


def _event(number: int, value: Any, topics: Mapping[str, Topic]) -> ScenarioEvent:
    where = f"event {number}"
    if not isinstance(value, dict):
        raise InvalidScenario(f"{where}: a mapping such as {{at: 0, join: c1}} is needed, not {value!r:.60}")
    kind = _event_kind(value, where)
    named = f" {value[kind]:.60}" if isinstance(value[kind], str) and _is_name(value[kind]) else ""
    where = f"{where} ({kind}{named})"
    fields = structs.asdict(_convert(value, _ENTRY_TYPES[kind], where))
    subject = fields.pop(kind)
    config = _parse_config(fields, where, topics)
    if kind == "partitions":
        if not subject:
            raise InvalidScenario(f"{where}: partitions: a mapping of topics to their new counts is needed")
        _known_topics(subject, f"{where}: partitions", topics)
        _check_partitions(subject.values(), f"{where}: partitions")
        return ScenarioEvent(number, kind=kind, partitions=subject, **config)
    if kind == "coordinator_fails":
        if not subject:
            raise InvalidScenario(f"{where}: coordinator_fails: only true is allowed")
        return ScenarioEvent(number, kind=kind, **config)
    if not _is_name(subject):
        raise InvalidScenario(f"{where}: {kind}: a member's name is needed, printable text without ~")
    return ScenarioEvent(number, kind=kind, member=subject, **config)


def _event_kind(value: Mapping[Any, Any], where: str) -> Kind:
    kinds = [kind for kind in _ENTRY_TYPES if kind in value]
    if len(kinds) == 1:
        return kinds[0]
    fields = {name for entry in _ENTRY_TYPES.values() for name in entry.__struct_fields__}
    for key in value:
        if key not in fields:
            raise InvalidScenario(f"{where}: {key}: unknown{_suggestion(str(key), _ENTRY_TYPES)}")
    what = f"both {' and '.join(kinds)}" if kinds else "nothing"
    raise InvalidScenario(f"{where}: has {what}; an event has exactly one of {', '.join(_ENTRY_TYPES)}")


def _known_topics(names: Iterable[str], where: str, topics: Mapping[str, Topic]) -> None:
    for name in names:
        if name not in topics:
            raise InvalidScenario(f"{where}: {name!r} is not a topic of this scenario{_suggestion(name, topics)}")


def _is_name(name: str) -> bool:
    return bool(name) and "~" not in name and name.isprintable()


def _suggestion(word: str, words: Iterable[str]) -> str:
    close = get_close_matches(word, list(words), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def parse_document(text: str) -> Any:
    """Parse YAML or JSON into plain values; raise InvalidScenario if the text is invalid or larger than the limit."""
    if len(text) > MAX_JSON_BYTES:
        raise InvalidScenario(f"scenario: has more than {MAX_JSON_BYTES} characters, the limit")
    if not text.lstrip().startswith("{"):
        return _yaml(text)
    try:
        value = json.loads(text, object_pairs_hook=_mapping, parse_constant=_refuse_number, parse_int=_whole_number)
    except json.JSONDecodeError:  # YAML may also begin with a brace.
        return _yaml(text)
    except RecursionError as error:
        raise _too_deep_error() from error
    _check_nesting(value, MAX_DEPTH)
    return value


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise InvalidScenario(f"scenario: {key}: appears twice in one mapping")
        mapping[key] = value
    return mapping


def _refuse_number(text: str) -> NoReturn:
    raise InvalidScenario(f"scenario: {text} is not a JSON number")


def _whole_number(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise InvalidScenario(f"scenario: a number has {len(text)} digits; the limit is {_MAX_DIGITS}")
    return int(text)


def _too_deep_error() -> InvalidScenario:
    return InvalidScenario(f"scenario: nested deeper than the limit, {MAX_DEPTH}")


def _check_nesting(value: Any, levels: int) -> None:
    if levels < 0:
        raise _too_deep_error()
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidScenario(f"scenario: {value!r} holds half of a surrogate pair; write both halves")
    if isinstance(value, dict | list):
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            _check_nesting(inner, levels - 1)


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call] # PyYAML's stubs leave it out
        if isinstance(event, yaml.AliasEvent):
            raise _invalid_scenario(event, f"*{event.anchor}: aliases are not supported; write out the aliased value")
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            raise _invalid_scenario(event, f"{tag}: tags are not read; leave it out")
        if self.depth > MAX_DEPTH:
            raise _too_deep_error()
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


#: SafeLoader's resolvers by first character, except those of merge keys (``<<``), ``=`` and dates.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _SCALAR_TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _invalid_scenario(at: yaml.Event | yaml.Node, why: str) -> InvalidScenario:
    line = "" if at.start_mark is None else f"line {at.start_mark.line + 1}: "
    return InvalidScenario(f"scenario: {line}{why}")


def _yaml(text: str) -> Any:
    if len(text) > MAX_YAML_BYTES:
        raise InvalidScenario(f"scenario: has more than {MAX_YAML_BYTES} characters of YAML, the limit; write JSON")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return None if node is None else _value(loader, node)
    except yaml.YAMLError as error:
        raise InvalidScenario(f"scenario: neither YAML nor JSON: {' '.join(str(error).split())}") from error


def _value(loader: _Loader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, inner) for inner in node.value]
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _invalid_scenario(key, "a key is not plain text")
        return _mapping([(_value(loader, key), _value(loader, inner)) for key, inner in node.value])
    if node.tag.rpartition(":")[2] in ("int", "float") and len(node.value) > _MAX_DIGITS:
        raise _invalid_scenario(node, f"a number has {len(node.value)} characters; the limit is {_MAX_DIGITS}")
    try:
        return loader.construct_object(node)
    except (ValueError, OverflowError) as error:  # YAML's pattern also matches 0b and 0x_, which are not numbers.
        raise _invalid_scenario(node, f"{node.value}: is not a number; write text in quotes") from error
