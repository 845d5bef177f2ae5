"""Which groups are collected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache


def selection(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Whether a group id as a whole matches one of ``include`` and none of ``exclude``.

    A ``.`` stands for any character: group ids may hold line breaks.
    """
    included = [re.compile(pattern, re.DOTALL) for pattern in include]
    excluded = [re.compile(pattern, re.DOTALL) for pattern in exclude]

    @cache
    def selected(group_id: str) -> bool:
        return any(pattern.fullmatch(group_id) for pattern in included) and not any(
            pattern.fullmatch(group_id) for pattern in excluded
        )

    return selected
