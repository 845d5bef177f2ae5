"""Tests of the fuzzing harness: its cases, its limits, and its stored findings."""

import json
from itertools import count
from random import Random

import pytest

from tests.fuzz import engine, limits
from tests.fuzz.case import Case, FuzzTarget, dump, load, pack, unpack
from tests.fuzz.mutate import CaseMutator

SEEDS: list[Case] = [[b"key", b'{"a": [1, {"b": "text"}]}'], [b"other", None]]


def reject_braces(case: Case) -> None:
    for part in case:
        if b"}}" in (part or b""):
            raise KeyError("two braces")


FUZZ_TARGET = FuzzTarget("made", reject_braces, lambda: SEEDS, 2)


def test_cases_are_unchanged_after_writing_and_reading() -> None:
    case: Case = [b"\x00\xff\n'\"", None, b"", "ü".encode()]
    assert load(f"# what it shows\n{dump(case)}") == case
    assert unpack(pack(case)) == case
    assert unpack(b"\xc1") is None


def test_seed_fixes_its_cases_and_they_differ() -> None:
    mutator = CaseMutator(FUZZ_TARGET, SEEDS)

    def made(number: int) -> list[Case]:
        random = Random(number)
        return [mutator.mutate_case(mutator.seed(random), random) for _ in range(300)]

    first = made(1)
    assert first == made(1) != made(2)
    assert len({pack(case) for case in first}) > 200
    changed = [case[1] for case in first if len(case) > 1 and case[1] not in (None, SEEDS[0][1])]
    assert sum(is_json(part) for part in changed if part) > 20


def is_json(part: bytes) -> bool:
    try:
        json.loads(part)
    except (ValueError, RecursionError):
        return False
    return True


def test_shrunk_finding_is_still_the_same_finding() -> None:
    case: Case = [b"a", b"long" * 50 + b"}}" + b"tail" * 9, b"b", b"}", b"c", None]
    with pytest.raises(KeyError) as error:
        reject_braces(case)
    assert engine.shrink_case(FUZZ_TARGET, case, error.value) == [b"", b"}}"]


def test_case_over_the_cpu_time_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CPU_SECONDS", 0.05)
    with pytest.raises(limits.InputTooSlow):
        limits.limited(lambda _: next(number for number in count() if number < 0), [])
