from __future__ import annotations

import pytest

from streaming.collect.selection import selection


@pytest.mark.parametrize(
    ("include", "exclude", "group_id", "expected"),
    [
        ([".*"], [], "any", True),
        ([".*"], [], "", True),
        ([".*"], [], "with\na line break", True),
        (["orders"], [], "orders-2", False),  # as a whole
        (["orders.*", "bills"], [], "bills", True),
        (["orders.*", "bills"], [], "other", False),
        ([".*"], ["tmp-.*"], "tmp-1", False),
        ([".*"], ["tmp-.*"], "tmp-\n", False),
        ([".*"], ["tmp-.*"], "my-tmp-1", True),
        (["tmp-1"], ["tmp-.*"], "tmp-1", False),
        ([], [], "any", False),
    ],
)
def test_a_group_as_a_whole_by_what_includes_and_what_excludes_it(
    include: list[str], exclude: list[str], group_id: str, expected: bool
) -> None:
    assert selection(include, exclude)(group_id) is expected
