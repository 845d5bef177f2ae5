import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from streaming.records.codec import encode
from streaming.serve.archive import Archive, PageQuery
from streaming.serve.history import History, Retention
from streaming.serve.historyfile import HistoryFailure
from tests.support.built_diffs import DiffBuilder
from tests.support.feed import DIFFS, assignment, records
from tests.support.histories import Group, change, sample


@pytest.fixture
def archive(history: History) -> Archive:
    for index, name in enumerate(("a", "b")):
        history.append(records(Group(name, {"t": 6}, index).diffs(30), partition=index))
    return Archive(history.path)


def round_numbers(items: list[bytes]) -> list[int]:
    return [json.loads(item)["seq"] for item in items]


def pages(archive: Archive, window: PageQuery, *, with_diff: bool = False) -> list[list[bytes]]:
    """Return the items of an archive query from this page to the last page, one list per page."""
    page = archive.page(window, with_diff=with_diff)
    later = [] if page.next is None else pages(archive, window._replace(before=page.next), with_diff=with_diff)
    return [page.items, *later]


def test_pages_are_bounded_by_bytes(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = pages(archive, PageQuery(limit=100), with_diff=True)
    monkeypatch.setattr("streaming.serve.archive.MAX_BYTES", sum(map(len, whole[:5])))
    first, *later = pages(archive, PageQuery(limit=100), with_diff=True)
    assert (len(first), [item for items in (first, *later) for item in items]) == (5, whole)
    monkeypatch.setattr("streaming.serve.archive.MAX_BYTES", 1)  # a page has at least one item
    assert round_numbers(archive.page(PageQuery(limit=100), with_diff=True).items) == [60]
    assert archive.timeline(PageQuery(group="b", limit=100))[1].next == 60


def test_diff_is_returned_byte_for_byte(archive: Archive) -> None:
    original = Group("a", {"t": 6}, 0).diffs(30)[9]
    assert b'"diff":' + encode(original) in (archive.round("a", 10) or b"")
    assert archive.round("b", 10) is None


def test_a_timeline_replays_to_the_ownership_of_every_round(archive: Archive) -> None:
    """The first owners and the changes in a timeline give the same owners after each round as the stored diffs."""
    original = dict(enumerate(Group("a", {"t": 6}, 0).diffs(30), 1))
    ends, page, _ = archive.timeline(PageQuery(group="a", limit=20))
    owners: dict[tuple[str, int], str | None] = {}
    rounds = [json.loads(item) for item in reversed(page.items)]
    steps = [json.loads(bytes(ends["base"]))] + [round_["changes"] for round_ in rounds]
    for seq, changes in zip([None, *(round_["seq"] for round_ in rounds)], steps, strict=True):
        for owner, topic, numbers in changes:
            owners.update(((topic, number), owner) for number in numbers)
        if seq is None:
            continue
        expected = {
            ("t", number): member_id
            for member_id, member in original[seq].members.items()
            for number in (*member.kept.get("t", ()), *member.assigned.get("t", ()))
        }
        assert {key: owner for key, owner in owners.items() if owner is not None} == expected
    assert page.next == 11


def test_an_unknown_group_has_an_empty_timeline(archive: Archive) -> None:
    assert archive.timeline(PageQuery(group="none")) == ({"base": Raw(b"[]"), "names": Raw(b"{}")}, ([], None), 0)
    assert archive.assignment("none") is None


def test_last_page_has_no_cursor(archive: Archive) -> None:
    """The last page has no cursor, even if the page is full: the cursor would lead to an empty page."""
    full = archive.page(PageQuery(group="a", limit=30), with_diff=False)
    assert (round_numbers(full.items), full.next) == (list(range(30, 0, -1)), None)
    short_page = archive.page(PageQuery(group="a", limit=29), with_diff=False)
    assert (round_numbers(short_page.items), short_page.next) == (list(range(30, 1, -1)), 2)
    owners, page, _ = archive.timeline(PageQuery(group="a", limit=30))
    assert (bytes(owners["base"]), round_numbers(page.items), page.next) == (b"[]", list(range(30, 0, -1)), None)


def test_timelines_and_rounds_use_display_names(history: History) -> None:
    """A timeline names the members at its oldest and newest round; a round names the members that its diff lists."""
    first = {"c1": change(assigned={"t": [0]}, client_id="orders", client_host="/h1")}
    second = {
        "c1": change(owned={"t": [0]}, kept={"t": [0]}, client_id="orders", client_host="/h1"),
        "c2": change(assigned={"t": [1]}, client_id="orders", client_host="/h2"),
    }
    rounds = [(1, first), (2, second), (3, {"c3": change()})]
    history.append(records([sample(members=members, generation=number) for number, members in rounds]))
    archive = Archive(history.path)
    timelines = [archive.timeline(PageQuery(group="g", limit=limit, before=4)) for limit in (1, 2, 3)]
    both = {"c1": "orders (h1)", "c2": "orders (h2)"}
    assert [json.loads(bytes(owners["names"])) for owners, _, _ in timelines] == [{}, both, {"c1": "orders"}]
    newest, _, _ = archive.timeline(PageQuery(group="g", limit=2, before=3))
    assert json.loads(bytes(newest["names"])) == both
    shown = json.loads(archive.round("g", 2) or b"")
    assert shown["names"] == shown["summary"]["names"] == both  # one member is the cause, the other gained a partition


def test_filtered_page_begins_before_the_cursor(archive: Archive) -> None:
    whole = [json.loads(item) for item in archive.page(PageQuery(limit=100), with_diff=False).items]
    for least in (0, 1, 2, 3):
        page = archive.page(PageQuery(group="b", min_moved=least, before=50, limit=100), with_diff=False)
        expected = [item["seq"] for item in whole if 30 < item["seq"] < 50 and item["summary"]["moved"] >= least]
        assert round_numbers(page.items) == expected


def test_rounds_after_a_position_are_limited(archive: Archive, history: History) -> None:
    rounds = archive.rounds_after(history.round_range, 3, 4, 10**9) or []
    assert [stored.seq for stored in rounds] == [4, 5, 6, 7]
    assert archive.rounds_after(history.round_range, 60, 100, 10**9) == []
    assert archive.rounds_after(msgspec.structs.replace(history.round_range, epoch="other"), 1, 1, 1) is None
    size = len(rounds[0].body) + len(rounds[1].body)
    assert [len(archive.rounds_after(history.round_range, 3, 9, most) or []) for most in (size - 1, size)] == [2, 3]
    history._connection.execute("UPDATE rounds SET stored = seq")
    history.trim(Retention(0, 2**40), rounds[0].seq)
    trimmed_seq = history.round_range.trimmed
    assert archive.rounds_after(history.round_range, trimmed_seq, 1, 1) is not None
    assert archive.rounds_after(history.round_range, trimmed_seq - 1, 1, 1) is None


def test_latest_assignment_is_returned_byte_for_byte(archive: Archive, history: History) -> None:
    stored = assignment(DiffBuilder(group_id="a").join("x"))
    history.append([stored])
    assert (archive.assignment("a"), archive.assignment("b")) == (stored.value, None)


@pytest.mark.parametrize(
    "damage", ["SET name = 'x' WHERE name = 'b'", "SET summary = NULL WHERE name = 'b'", "SET id = 9 WHERE id = 2"]
)
def test_round_without_its_group_row_is_reported_as_damage(history: History, archive: Archive, damage: str) -> None:
    history._connection.execute(f"UPDATE groups {damage}")
    assert archive.rounds_after(history.round_range, 20, 10, 10**9)
    with pytest.raises(HistoryFailure, match=r"is damaged; .* \(round 31 is stored for group"):
        archive.rounds_after(history.round_range, 20, 11, 10**9)


def test_group_row_under_another_name_is_reported_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with closing(History(path, cluster_id="c", diffs_topic=DIFFS)) as history:
        history.append(records(Group("a", {"t": 6}, 1).diffs(3)))
        history._connection.execute("UPDATE groups SET name = 'x'")
    with pytest.raises(HistoryFailure, match=r"is damaged; .* \(the summary of group 'x' names group 'a'\)"):
        History(path, cluster_id="c", diffs_topic=DIFFS)


def join_times(history: History, group: DiffBuilder, first: int = 0) -> dict[str, int]:
    """Return the join times of a group's members as the history has them, which stores the rounds from ``first`` on."""
    history.append(records([diff for _, diff in group.diffs[first:]]))
    history.append([assignment(group)])
    return Archive(history.path).group("g", 0)["since"]


def test_members_have_their_join_times(history: History) -> None:
    builder = DiffBuilder(6, group_id="g").join("a").join("b", "c").leave("b").join("d").leave("c").join("c", "b")
    times = [diff.timestamp for _, diff in builder.diffs]
    assert join_times(history, builder) == {"a": times[0], "b": times[5], "c": times[5], "d": times[3]}
    unknown_group = Archive(history.path).group("nobody", 0)
    assert unknown_group == {"assignment": None, "names": {}, "since": {}, "downtimeToday": None}


def test_member_joined_before_the_stored_rounds_has_no_time(history: History) -> None:
    builder = DiffBuilder(6, group_id="g").join("a").join("b").leave("b").join("c")
    assert join_times(history, builder, first=2) == {"c": builder.now}


def test_join_times_are_searched_in_bounded_bytes(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = DiffBuilder(6, group_id="g").join("a").join("b").join("c")
    assert join_times(history, builder).keys() == {"a", "b", "c"}
    monkeypatch.setattr("streaming.serve.owner_history.MAX_READ_BYTES", 1)
    assert Archive(history.path).group("g", 0)["since"].keys() == {"c"}  # only the newest round was read; it names c
