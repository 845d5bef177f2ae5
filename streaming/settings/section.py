"""Tables of settings: what holds for each, and what is wrong with one."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails

from assignors.errors import BadInput

#: What stands for bytes that are no UTF-8, and a null, where clients' strings end (and half of UTF-16).
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
#: A day: what is asked for more seldom is as good as not asked for.
LONGEST_INTERVAL_MS: Final = 86_400_000


def is_text(text: str) -> bool:
    """Whether a client can be given it whole, and a file of settings can hold it."""
    return _NO_TEXT.search(text) is None


class Section(BaseModel):
    """Unknown settings are refused, and so is what is no text."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @field_validator("*")
    @classmethod
    def _is_text(cls, value: object) -> object:
        for one in value if isinstance(value, list) else [value]:
            text = one.get_secret_value() if isinstance(one, SecretStr) else one
            if isinstance(text, str) and not is_text(text):
                raise ValueError("is not UTF-8 text")
        return value


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
