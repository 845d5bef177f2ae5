from __future__ import annotations

from assignors.java import JavaRandom, shuffle


def test_the_documented_generator() -> None:
    # The first numbers of new Random(42) in a JVM.
    assert [JavaRandom(42).next_signed()] == [-1170105035]
    random = JavaRandom(42)
    assert [random.next_int(10) for _ in range(5)] == [0, 3, 8, 4, 0]
    random = JavaRandom(42)
    assert [random.next_int(16) for _ in range(5)] == [11, 0, 10, 0, 4]


def test_shuffle_is_a_permutation_and_a_function_of_the_seed() -> None:
    first, second = list(range(20)), list(range(20))
    shuffle(first, JavaRandom(7))
    shuffle(second, JavaRandom(7))
    assert first == second
    assert sorted(first) == list(range(20))
