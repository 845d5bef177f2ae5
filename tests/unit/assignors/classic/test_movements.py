from __future__ import annotations

from assignors.classic.sticky_general import _Movements


def test_a_move_back_takes_a_partition_that_came_from_there() -> None:
    movements = _Movements()
    movements.record("t", 1, 0, 5)
    assert movements.instead_of("t", 3, old=5, new=0) == 1
    assert movements.instead_of("u", 3, old=5, new=0) == 3
    assert movements.instead_of("t", 3, old=5, new=2) == 3


def test_two_moves_count_from_the_first_owner_and_return_as_none() -> None:
    movements = _Movements()
    movements.record("t", 1, 0, 5)
    movements.record("t", 1, 5, 6)
    assert movements.snapshot() == {("t", 0, 6): [1]}
    movements.record("t", 1, 6, 0)
    assert movements.snapshot() == {}


def test_first_of_many_is_in_hash_order() -> None:
    movements = _Movements()
    for partition in (17, 3, 0):
        movements.record("t", partition, 0, 5)
    # 31·(31 + p) + "t".hashCode(): bins 4, 2 and 5
    assert movements.instead_of("t", 9, old=5, new=0) == 3
    for partition in range(20, 40):
        movements.record("t", partition, 0, 5)
    assert len(movements.snapshot()["t", 0, 5]) == 23
    for partition in (*range(20, 37), 0):  # back to where they were
        movements.record("t", partition, 5, 0)
    assert sorted(movements.snapshot()["t", 0, 5]) == [3, 17, 37, 38, 39]
    for partition in (3, 17, 37, 38, 39):
        movements.record("t", partition, 5, 0)
    assert movements.snapshot() == {}
