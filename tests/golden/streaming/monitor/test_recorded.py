"""The stream gives the bytes that it gave: writes, timers and state over recorded logs of every sort."""

from __future__ import annotations

import json
import os

import pytest

from streaming.monitor.asking import native
from tests.support import recorded

pytestmark = pytest.mark.long
COUNT = int(os.environ.get("RECORDED_EVENTS", recorded.SAMPLE))


@pytest.mark.parametrize("mode", ["python", "native"])
@pytest.mark.parametrize("sort", recorded.SORTS)
def test_recorded_logs_give_the_same_bytes(sort: str, mode: str) -> None:
    if mode == "native" and not native():
        pytest.skip("the native module is built where there is cargo")
    known = json.loads(recorded.GOLDEN.read_text())[str(COUNT)][sort]
    with recorded.mode(mode):
        found = recorded.digests(sort, COUNT)
    assert found["log"] == known["log"], (
        "the generator changed: write the digests anew at a release that stood"
    )
    assert found == known
