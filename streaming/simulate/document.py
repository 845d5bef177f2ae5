"""YAML or JSON to plain values, without what both would swallow: a key that a mapping holds twice."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from streaming.simulate.scenario import InvalidScenario


class Twice(dict[Any, Any]):
    """A mapping that said something twice; ``key`` is what."""

    key: Any = None


def document(text: str) -> Any:
    """What a YAML or JSON text says.

    Raises:
        InvalidScenario: it is neither.
    """
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_mapping)
        except ValueError:  # YAML may begin with a brace, too
            return _yaml(text)
        except RecursionError as error:
            raise InvalidScenario("scenario: nested too deep") from error
    return _yaml(text)


def once(value: Mapping[Any, Any], where: str) -> None:
    """A mapping says each thing once.

    Raises:
        InvalidScenario: it does not.
    """
    if isinstance(value, Twice):
        raise InvalidScenario(f"{where}: {value.key}: stands there twice")


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found and not isinstance(found, Twice):
            found = Twice(found)
            found.key = key
        found[key] = value
    return found


class _Loader(yaml.SafeLoader):
    """Safe, and it sees keys that stand in a mapping twice."""


def _construct(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    pairs = []
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, "a key is not plain text", key_node.start_mark
            )
        pairs.append((key, loader.construct_object(value_node, deep=True)))
    return _mapping(pairs)


_Loader.add_constructor("tag:yaml.org,2002:map", _construct)


def _yaml(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that is none
        raise InvalidScenario(f"scenario: neither YAML nor JSON: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise InvalidScenario("scenario: nested too deep") from error
