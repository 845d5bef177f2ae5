from pathlib import Path

import pytest

from tests.fuzz import engine
from tests.fuzz.case import FINDINGS_FOLDER, dump, load
from tests.fuzz.targets import NAMES, get

CASES = sorted(FINDINGS_FOLDER.glob("*/*.case"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_recorded_fuzz_findings_do_not_fail_again(path: Path) -> None:
    engine.replay(get(path.parent.name), path)


@pytest.mark.parametrize("name", NAMES)
def test_fuzz_target_accepts_its_seed_cases(name: str) -> None:
    target = get(name)
    for case in target.seeds():
        target.check(list(case))
        assert load(dump(case)) == case
