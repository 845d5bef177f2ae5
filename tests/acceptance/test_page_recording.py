"""``replay FILE --page`` shows a recording in a browser, without a cluster."""

import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from streaming.recording.file import read_recording
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode
from tests.support.axe import violations
from tests.support.browser import WIDE_ELEMENTS_SCRIPT, open_page
from tests.support.command import RunningCommand
from tests.support.wait import eventually
from tests.unit.streaming.recording.test_file import RECORDING_BYTES

pytestmark = pytest.mark.browser


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "incident.rmlog"
    file.write_bytes(RECORDING_BYTES)
    with RunningCommand("replay", str(file), "--page", "--port", "0", log=tmp_path / "replay.log").start() as replay:

        def address() -> str | None:
            replay.check()
            served = re.search(r"^serving (http://\S+)$", replay.output(), re.MULTILINE)
            return None if served is None else served[1]

        yield str(eventually(address))
        assert replay.stop() == 0


def test_a_recording_is_shown_with_rounds_episodes_and_moments(browser: Browser, url: str) -> None:
    outputs = [output.value for step in read_recording(io.BytesIO(RECORDING_BYTES), "a").steps() for output in step]
    rounds = Counter(output.group_id for output in outputs if isinstance(output, Diff))
    group = min(rounds)
    newest = {output.episode: output for output in outputs if isinstance(output, Episode) and output.group_id == group}
    first = next(output for output in outputs if isinstance(output, Diff) and output.group_id == group)
    watched = open_page(browser, url)
    page = watched.page
    expect(page.locator(".count")).to_have_text(f"{len(rounds)} groups")
    assert violations(page) == []
    page.get_by_role("link", name=group, exact=True).first.click()
    expect(page.locator(".band")).to_have_count(len(newest))
    page.get_by_role("button", name="Unfold all").click()
    expect(page.locator(".round")).to_have_count(rounds[group])
    page.locator(".round > button").last.click()
    page.get_by_role("button", name="As of round").click()
    page.wait_for_url(re.compile(f"at={first.timestamp}"))
    expect(page.locator("[data-member]")).to_have_count(
        sum(member.present is not False for member in first.members.values())
    )
    assert violations(page) == []
    assert page.evaluate(WIDE_ELEMENTS_SCRIPT) == []
    assert watched.requested_origins == {url}
    assert watched.errors == []
    page.context.close()
