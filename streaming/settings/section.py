"""Base class of the tables of settings, and messages about invalid settings."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails

from assignors.errors import BadInput

#: Surrogates (Python's form of bytes that are not UTF-8), and the null character, which ends a string in C clients.
_NOT_TEXT_CHARACTERS: Final = re.compile("[\0\ud800-\udfff]")
#: Longest interval of any setting: a day.
LONGEST_INTERVAL_MS: Final = 86_400_000


def is_valid_text(text: str) -> bool:
    """Return True if the text has no surrogates and no null character."""
    return _NOT_TEXT_CHARACTERS.search(text) is None


class Section(BaseModel):
    """A table of settings, which refuses unknown names and text that is not UTF-8."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @field_validator("*")
    @classmethod
    def _check_text(cls, value: object) -> object:
        for item in value if isinstance(value, list) else [value]:
            text = item.get_secret_value() if isinstance(item, SecretStr) else item
            if isinstance(text, str | Path) and not is_valid_text(str(text)):
                raise ValueError("is not UTF-8 text")
        return value


def _compile_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    return text


#: A setting that must be a valid regular expression.
Pattern = Annotated[str, AfterValidator(_compile_pattern)]
_Model = TypeVar("_Model", bound=BaseModel)


class InvalidSettings(BadInput):
    """A setting is unknown or has a wrong value."""


def changed(section: _Model, name: str, **changes: Any) -> _Model:
    """Return a copy of the section with these settings changed, validated by the same rules."""
    return validate(type(section), section.model_dump(exclude_unset=True) | changes, section_name=name)


def validate(model: type[_Model], values: dict[str, Any], *, section_name: str = "") -> _Model:
    """Return these settings validated as ``model``; ``section_name``: the name of their table in error messages."""
    try:
        return model(**values)
    except ValidationError as error:
        messages = (_error_text(model, details, section_name) for details in error.errors())
        raise InvalidSettings("; ".join(messages)) from error


def _error_text(model: type[BaseModel], error: ErrorDetails, section_name: str) -> str:
    *path, last = (str(part) for part in error["loc"]) if error["loc"] else ("",)
    where = ".".join(part for part in (section_name, *path, last) if part)
    if error["type"] == "extra_forbidden":
        return f"setting {where}: unknown; {suggestion(last, names(model, path), '.'.join([*path, '']))}"
    if error["type"] in {"model_type", "dict_type"}:
        return f"setting {where}: must be a table, [{where}]"
    return f"setting {where}: {error['msg'].removeprefix('Value error, ')}"


def suggestion(name: str, candidates: Collection[str], prefix: str = "") -> str:
    """Return a hint for error messages: the candidate most similar to a misspelled name, or all candidates."""
    close_match = get_close_matches(name, candidates, n=1)
    return f"did you mean {prefix}{close_match[0]}?" if close_match else f"known names: {', '.join(candidates)}"


def names(model: type[BaseModel], path: list[str]) -> list[str]:
    """Return the names of the settings in a table."""
    for part in path:
        if part.isdigit():  # The setting is a list of tables.
            continue
        annotation = model.model_fields[part].annotation
        inner = next(iter(get_args(annotation)), annotation)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return list(model.model_fields)
