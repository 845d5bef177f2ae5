"""Parse YAML or JSON text into plain values, within limits on size, depth and digits."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import yaml

from streaming.simulation.scenario import InvalidScenario

#: Room for a hundred thousand events as JSON; YAML is parsed a hundred times more slowly.
MAX_JSON = 16 * 2**20
MAX_YAML = 2**20
#: A scenario needs five levels.
MAX_DEPTH = 20
#: No number of a scenario has more than ten digits.
_MAX_DIGITS = 40
#: YAML 1.1's tags of plain values; dates count as text.
_PLAIN = ("null", "bool", "int", "float")


def parse_document(text: str) -> Any:
    """Parse a YAML or JSON text into plain values.

    Raises:
        InvalidScenario: the text is neither, or exceeds a limit.
    """
    if len(text) > MAX_JSON:
        raise InvalidScenario(f"scenario: longer than {MAX_JSON} characters, the limit")
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text, object_pairs_hook=_mapping, parse_constant=_no_number, parse_int=_whole_number)
        except json.JSONDecodeError:  # YAML may begin with a brace, too
            return _yaml(text)
        except RecursionError as error:
            raise _too_deep() from error
        _check(value, MAX_DEPTH)
        return value
    return _yaml(text)


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise InvalidScenario(f"scenario: {key}: stands there twice in one mapping")
        mapping[key] = value
    return mapping


def _no_number(text: str) -> NoReturn:
    raise InvalidScenario(f"scenario: {text} is no number of JSON's")


def _whole_number(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise InvalidScenario(f"scenario: a number of {len(text)} digits; {_MAX_DIGITS} are the limit")
    return int(text)


def _too_deep() -> InvalidScenario:
    return InvalidScenario(f"scenario: nested more than {MAX_DEPTH} deep, the limit")


def _check(value: Any, levels: int) -> None:
    if levels < 0:
        raise _too_deep()
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidScenario(f"scenario: {value!r} holds half of a surrogate pair; write both halves")
    if isinstance(value, dict | list):
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(inner, levels - 1)


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call] # PyYAML's stubs leave it out
        if isinstance(event, yaml.AliasEvent):
            raise _refused(event, f"*{event.anchor}: aliases are not read; write out what it stands for")
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            raise _refused(event, f"{tag}: tags are not read; leave it out")
        if self.depth > MAX_DEPTH:
            raise _too_deep()
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


#: SafeLoader's resolvers by first character, without merge keys (``<<``), ``=`` and dates.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _PLAIN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _refused(at: yaml.Event | yaml.Node, why: str) -> InvalidScenario:
    line = "" if at.start_mark is None else f"line {at.start_mark.line + 1}: "
    return InvalidScenario(f"scenario: {line}{why}")


def _yaml(text: str) -> Any:
    if len(text) > MAX_YAML:
        raise InvalidScenario(f"scenario: longer than {MAX_YAML} characters of YAML, the limit; write JSON")
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
        return _mapping([(_key(loader, key), _value(loader, inner)) for key, inner in node.value])
    kind = node.tag.rpartition(":")[2]
    if kind in ("int", "float") and len(node.value) > _MAX_DIGITS:
        raise _refused(node, f"a number of {len(node.value)} characters; {_MAX_DIGITS} are the limit")
    try:
        return loader.construct_object(node)
    except (ValueError, OverflowError) as error:  # 0b, 0x_: YAML's own pattern takes them for numbers
        raise _refused(node, f"{node.value}: is no number; write text in quotes") from error


def _key(loader: _Loader, node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        raise _refused(node, "a key is not plain text")
    return _value(loader, node)
