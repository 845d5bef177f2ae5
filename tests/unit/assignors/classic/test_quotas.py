from __future__ import annotations

from assignors.classic.sticky_uniform import _Quotas


def test_kept_shares_and_members_with_room() -> None:
    quotas = _Quotas.of(partitions=11, members=4)
    assert (quotas.floor, quotas.ceiling, quotas.extra) == (2, 3, 3)
    assert [quotas.keep(place, size) for place, size in enumerate([1, 2, 3, 5])] == [1, 2, 3, 3]
    assert (quotas.under, quotas.exact, quotas.large) == ([0], [1], 2)


def test_the_last_large_member_closes_the_way() -> None:
    quotas = _Quotas.of(partitions=5, members=2)
    assert [quotas.keep(place, size) for place, size in enumerate([2, 3])] == [2, 3]
    assert (quotas.exact, quotas.large) == ([], 1)


def test_the_circle_then_the_queue() -> None:
    quotas = _Quotas(floor=2, ceiling=3, extra=2, under=[0, 1, 2], exact=[3])
    assert quotas.receivers([0, 1, 0, 2], count=7) == [0, 1, 2, 0, 2, 3, 1]
