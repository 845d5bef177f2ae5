"""Settings held to their rules; a refusal names each one that is wrong, and what would be right."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from assignors.errors import BadInput

M = TypeVar("M", bound=BaseModel)


class InvalidSettings(BadInput):
    """A setting is unknown or has the wrong type."""


def changed(section: M, name: str, **changes: Any) -> M:
    """The section with these settings, held to the same rules."""
    return validated(type(section), section.model_dump(exclude_unset=True) | changes, within=name)


def validated(model: type[M], values: dict[str, Any], *, within: str = "") -> M:
    """The settings in ``values``; ``within`` is the table they stand in, for messages.

    Raises:
        InvalidSettings: some are unknown or have the wrong type; the message names each.
    """
    try:
        return model(**values)
    except ValidationError as error:
        found = "; ".join(_told(model, one, within) for one in error.errors())
        raise InvalidSettings(found) from error


def _told(model: type[BaseModel], error: ErrorDetails, within: str) -> str:
    """One thing that is wrong, and what would be right."""
    *path, last = (str(part) for part in error["loc"]) if error["loc"] else ("",)
    where = ".".join(part for part in (within, *path, last) if part)
    if error["type"] == "extra_forbidden":
        known = names(model, path)
        guess = get_close_matches(last, known, n=1)
        return f"setting {where}: unknown; " + (
            f"did you mean {'.'.join([*path, guess[0]])}?" if guess else f"known are {', '.join(known)}"
        )
    if error["type"] in {"model_type", "dict_type"}:
        return f"setting {where}: is a table, [{where}]"
    return f"setting {where}: {error['msg'].removeprefix('Value error, ')}"


def names(model: type[BaseModel], path: list[str]) -> list[str]:
    """The settings of a table."""
    for part in path:
        inner = model.model_fields[part].annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return list(model.model_fields)
