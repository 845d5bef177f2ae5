from __future__ import annotations

from assignors.classic.sticky_general import Loads, mask_of


def test_masks() -> None:
    assert mask_of([0, 2, 5], 6) == 0b100101


def test_the_first_of_the_least_loaded_in_a_set() -> None:
    loads = Loads([2, 1, 1, 0])
    some = mask_of([0, 1, 2], 4)
    assert (loads.least(some), loads.first_of_least(some)) == (1, 1)
    loads.move(0, 1)
    assert (loads.of, loads.version) == ([1, 2, 1, 0], 1)
    assert (loads.least(some), loads.first_of_least(some)) == (1, 0)
    assert loads.first_of_least(mask_of([3], 4)) == 3
