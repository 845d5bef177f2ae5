"""A history of rounds that leave out who kept everything says what one of rounds with everybody says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from streaming.monitor.brief import Naming
from streaming.monitor.rendering import AssignmentOutput, Output
from streaming.serve import history as history_module
from streaming.serve.archive import Archive, OwnersOverTime, StoredPage, Window
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.events import Event
from tests.support.feed import ASSIGNMENTS, DIFFS
from tests.support.histories import Log, play
from tests.support.waves import waves


def restarts(count: int = 90, size: int = 24) -> list[Event]:
    """Members come, go and are replaced, static ones under new ids."""
    log, random = Log(), Random(7)
    sticky = {"assignors": ["cooperative-sticky"], "client_id": "pay"}
    events = [log.topics(t=size)]
    there: list[str] = []
    for number in range(count):
        if len(there) < size:
            there.append(f"m{number}")
            instance = {"group_instance_id": f"i{len(there)}"} if len(there) % 3 == 0 else {}
            events.append(log.join(there[-1], **instance, **sticky))
        elif random.random() < 0.3:
            there[2] = f"m{number}"
            events.append(log.join(there[2], group_instance_id="i3", **sticky))
        else:
            events.append(log.leave(there.pop(random.choice((0, 1, 3, 4)))))
    return [*events, log.leave(there[0])]


def outputs(naming: Naming) -> list[Output]:
    return play(restarts(), naming=naming)[1]


def record(output: Output, offset: int) -> TopicRecord:
    topic = ASSIGNMENTS if isinstance(output, AssignmentOutput) else DIFFS
    return TopicRecord(topic, 0, offset, b"g", output.value, output.id)


def stored(folder: Path, given: list[Output], *, opened: int = 1) -> History:
    """The history after so many openings."""
    folder.mkdir()
    step = len(given) // opened + 1
    for start in range(0, len(given), step):
        found = History(folder / "h.sqlite", cluster_id="c", diffs_topic=DIFFS)
        for offset, output in enumerate(given[start : start + step], start):
            found.append([record(output, offset)])
        if start + step < len(given):
            found.close()
    return found


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[History, History]]:
    whole = stored(tmp_path / "whole", outputs("all"))
    brief = stored(tmp_path / "brief", outputs("changed"), opened=5)
    yield whole, brief
    whole.close()
    brief.close()


def items(page: StoredPage) -> list[dict[str, Any]]:
    return [json.loads(item) for item in page.items]


def owned(found: OwnersOverTime) -> tuple[list[str], object, object]:
    return sorted(map(str, json.loads(found.base))), json.loads(found.names), found.page


def test_groups_and_rounds_are_the_same(both: tuple[History, History]) -> None:
    whole, brief = both
    assert brief.groups == whole.groups
    with closing(Archive(whole.path)) as one, closing(Archive(brief.path)) as other:
        page = Window(group="g", limit=200)
        assert other.page(page, with_diff=False) == one.page(page, with_diff=False)
        left = [json.loads(item)["diff"].get("unchanged") for item in other.page(page, with_diff=True).items]
        assert sum(one is not None for one in left) > len(left) / 2


def test_of_waves_rounds_and_owners_are_the_same_whatever_the_diff_before_has_told(tmp_path: Path) -> None:
    log = waves(5, 2)
    whole = stored(tmp_path / "whole", play(log, naming="all")[1])
    brief = stored(tmp_path / "brief", play(log, naming="auto")[1], opened=3)
    with (
        closing(whole),
        closing(brief),
        closing(Archive(whole.path)) as one,
        closing(Archive(brief.path)) as other,
    ):
        assert brief.groups == whole.groups
        page = Window(group="g", limit=500)
        assert items(other.page(page, with_diff=False)) == items(one.page(page, with_diff=False))
        assert items(other.timeline(page).page) == items(one.timeline(page).page)
        diffs = [item["diff"] for item in items(other.page(page, with_diff=True))]
        assert sum("stillUnassigned" in diff for diff in diffs) > 20
        assert sum("omitted" in diff["cause"] for diff in diffs) > 20


def test_owners_over_time_and_since_when_members_are_there_are_the_same(
    both: tuple[History, History],
) -> None:
    whole, brief = both
    with closing(Archive(whole.path)) as one, closing(Archive(brief.path)) as other:
        for before in range(3, brief.extent.last + 2, 5):
            window = Window(group="g", limit=3, before=before)
            assert owned(other.timeline(window)) == owned(one.timeline(window))
        latest, also = one.assignment("g"), other.assignment("g")
        assert latest is not None
        assert also is not None
        assert msgspec.structs.replace(decode(also), after=UNSET) == decode(latest)
        assert other.since("g", also) == one.since("g", latest) != {}
        names = json.loads(other.round("g", brief.extent.last) or b"")["names"]
        assert names.items() <= json.loads(one.round("g", whole.extent.last) or b"")["names"].items()


def decode(body: bytes) -> LatestAssignment:
    return msgspec.json.decode(body, type=LatestAssignment)


def test_rounds_after_an_assignment_are_part_of_it(tmp_path: Path) -> None:
    given = outputs("changed")
    early = next(one for one in given[20:] if isinstance(one, AssignmentOutput))
    last = [one for one in given if isinstance(one, AssignmentOutput)][-1]
    rounds = [one for one in given if not isinstance(one, AssignmentOutput)]
    found = stored(tmp_path / "h", [*rounds, early])
    with closing(found), closing(Archive(found.path)) as archive:
        assert last.assignment is not None
        assert decode(archive.assignment("g") or b"") == last.assignment
        assert found.groups["g"].members == len(last.assignment.members)


@pytest.mark.parametrize("place", ["before", "within", "behind"])
def test_where_no_round_names_everybody_any_more_the_assignment_does(tmp_path: Path, place: str) -> None:
    """Only the last rounds are in the file; the assignment is of before them, of between, or of their end."""
    whole = [one for one in outputs("all") if not isinstance(one, AssignmentOutput)]
    given = outputs("changed")
    rounds = [one for one in given if not isinstance(one, AssignmentOutput)]
    kept = rounds[-12:]
    assert all(msgspec.json.decode(one.value or b"", type=Diff).unchanged is not UNSET for one in kept)
    wanted = {"before": rounds[-13], "within": rounds[-6], "behind": rounds[-1]}[place]
    latest = [one for one in given if isinstance(one, AssignmentOutput) and one.after == wanted.id]
    if not latest:  # of an event with two rounds the second is what assignments name
        pytest.skip("no assignment stands just there")
    one = stored(tmp_path / "whole", whole[-12:])
    order = [latest[0], *kept] if place == "before" else [*kept, latest[0]]
    other = stored(tmp_path / "brief", [rounds[-13], *order] if place == "before" else order)
    with (
        closing(one),
        closing(other),
        closing(Archive(one.path)) as first,
        closing(Archive(other.path)) as second,
    ):
        shift = other.extent.last - one.extent.last
        for before in range(3, 13):
            window = Window(group="g", limit=1, before=before)
            wanted_base = owned(first.timeline(window))[0]
            assert owned(second.timeline(window._replace(before=before + shift)))[0] == wanted_base


def test_now_and_then_a_round_is_stored_with_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MOST_BRIEF", 3)
    monkeypatch.setattr(history_module, "MOST_KEPT", 1)
    found = stored(tmp_path / "h", outputs("changed"))
    with closing(found), closing(Archive(found.path)) as archive:
        items = archive.page(Window(group="g", limit=200), with_diff=True).items
        left = ["unchanged" in json.loads(item)["diff"] for item in items]
        assert all(not all(left[start : start + 5]) for start in range(len(left) - 5))
        whole = [one.diff for one in outputs("all") if not isinstance(one, AssignmentOutput)]
        shown = [msgspec.convert(json.loads(item)["diff"], Diff) for item in reversed(items)]
        assert all(a == b for a, b in zip(shown, whole, strict=True) if a.unchanged is UNSET)
