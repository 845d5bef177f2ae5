"""A table of settings: what holds for every one."""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

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
