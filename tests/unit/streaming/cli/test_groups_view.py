import pytest
from msgspec import structs

from streaming.cli.episodes import episode_lines
from streaming.cli.groups import group_lines, group_table
from streaming.process.terminal import console, show
from streaming.recording.overview import group_overview, group_overviews
from streaming.records.codec import rfc3339
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Downtime, Episode, EpisodeMembers, Rebalancing, Replaced
from streaming.records.events import Evidence
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import ENDED_MS, checkout_group, episode_records, latest

NOW_MS = ENDED_MS + 86_400_000
GROUP = "team/checkout"


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def lines(episode: Episode, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(episode_lines(episode, NOW_MS))
    return capsys.readouterr().out.splitlines()


def test_unsure_kinds_and_missing_evidence_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    episode = structs.replace(episode_records(checkout_group())[0].episode, kind="crash", sure=False, evidence=[])
    shown = lines(episode, capsys)
    assert shown[0] == "team/checkout, episode 1: crash (not sure), settled"
    assert shown[2:4] == ["evidence", "  none"]
    assert lines(structs.replace(episode, kind="unknown"), capsys)[0].endswith(": unknown, settled")


def test_repeated_reason_is_shown_once_with_names(capsys: pytest.CaptureFixture[str]) -> None:
    evidence = [
        Evidence(source="coordinator-log", reason="pay@h1#1 left", member_ids=["pay@h1#1"]),
        Evidence(source="coordinator-log", reason="pay@h1#1 left", member_ids=["pay@h1#1", "x"]),
        Evidence(source="polling", reason="can't tell", member_ids=[]),
    ]
    shown = lines(structs.replace(episode_records(checkout_group())[1].episode, evidence=evidence), capsys)
    assert shown[2:5] == ["evidence", "  pay (h1) left (coordinator-log)", "  can't tell (polling)"]


def test_episode_lists_members_by_change_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    members = EpisodeMembers(
        joined=[f"j{number:02}" for number in range(22)],
        left=["l"],
        lost=["o"],
        gone=["g"],
        replaced=[Replaced(left="a", joined="b", by="pod names of one Deployment")],
        before=4,
        after=23,
        names={"a": MemberNames(client_id="pay-1"), "b": MemberNames(client_id="pay-2")},
        omitted=7,
    )
    shown = lines(structs.replace(episode_records(checkout_group())[0].episode, members=members), capsys)
    assert shown[shown.index("members  4 before, 23 after") + 1 : -1] == [
        "  replaced pay-1 → pay-2  by pod names of one Deployment",
        *(f"  joined   j{number:02}" for number in range(20)),
        "           and 2 more, see --json",
        "  left     l",
        "  crashed  o",
        "  gone     g",
        "  and 7 more that the episode does not list",
    ]


def test_downtime_bounds_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    downtime = Downtime(
        lower_ms=5,
        upper_ms=90,
        longest_ms=(3, 40),
        total_ms=(5, 90),
        stops=(2, 3),
        partitions=2,
        evidence=["listener", "offset-commits"],
    )
    episode = structs.replace(episode_records(checkout_group())[0].episode, downtime=downtime)
    assert lines(episode, capsys)[-1] == (
        "downtime  longest 3 to 40 ms; in all 5 to 90 ms (2 partitions, 2 to 3 stops); by listener, offset-commits"
    )
    unbounded_downtime = Downtime(
        lower_ms=5, upper_ms=None, longest_ms=(4, None), total_ms=(5, None), stops=(1, 1), partitions=1, unbounded=1
    )
    assert lines(structs.replace(episode, downtime=unbounded_downtime), capsys)[-1] == (
        "downtime  longest ≥ 4 ms; in all ≥ 5 ms (1 partition, 1 stop); no upper limit known for 1 partition"
    )


def test_group_without_members_or_episodes_is_still_printed(capsys: pytest.CaptureFixture[str]) -> None:
    empty = DiffBuilder().join("a").leave("a")
    show(group_lines(group_overview("g", [latest(empty)], [], []), NOW_MS))
    assert capsys.readouterr().out == (
        "g  consumer, empty since 2023-11-14 22:13:22 UTC, 0 members"
        "  classic, range, generation 2 since 2023-11-14 22:13:22 UTC\n"
    )
    unknown = structs.replace(latest(DiffBuilder().join("a")), assignor=None, generation=None, group_epoch=4)
    show(group_lines(group_overview("g", [unknown], [], []), NOW_MS))
    assert capsys.readouterr().out.splitlines()[0] == (
        "g  consumer, stable since 2023-11-14 22:13:21 UTC, 1 member  classic, epoch 4 since 2023-11-14 22:13:21 UTC"
    )


def test_tasks_of_kafka_streams_are_listed_beside_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    assignment = structs.replace(
        latest(DiffBuilder(2).join("a", "b")), standby={"a": {"0": [1]}}, warmup={"a": {}, "b": {"1": [2]}}
    )
    show(group_lines(group_overview("g", [assignment], [], []), NOW_MS))
    rows = [line.split("│")[3].strip() for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert rows == ["t:0  standby 0:1", "t:1  warm-up 1:2"]


def test_statuses_have_colours_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen = console(is_wide=True)
    screen._color_system, screen._force_terminal = (__import__("rich.console").console.ColorSystem.STANDARD, True)
    screen.print(
        group_table(group_overviews([latest(checkout_group())], episode_records(checkout_group()), [], ENDED_MS))
    )
    assert "\x1b[32mstable" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("downtime", "cell"),
    [
        (Downtime(lower_ms=300, upper_ms=1210, total_ms=(300, 1210)), "300 ms to 1.2 s"),
        (Downtime(lower_ms=300, upper_ms=None, total_ms=(300, None)), "≥ 300 ms"),
        (None, ""),
    ],
)
def test_downtime_of_the_day_is_listed_with_each_group(
    downtime: Downtime | None, cell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (overview,) = group_overviews([latest(checkout_group())], episode_records(checkout_group()), [], ENDED_MS)
    console(is_wide=True).print(group_table([overview._replace(today=downtime)]))
    row = next(line for line in capsys.readouterr().out.splitlines() if GROUP in line)
    assert row.split("│")[5].strip() == cell


def test_rebalance_in_progress_names_awaited_members(capsys: pytest.CaptureFixture[str]) -> None:
    builder = DiffBuilder(2).join("a@h#1", "b@h#1")
    since = builder.now + 1000
    now = Rebalancing(since=since, reason="member b@h#1 joined", awaited=["a@h#1"], until={"a@h#1": since + 132_000})
    newest = episode_records(builder, over=False)[-1]
    episode = structs.replace(newest.episode, status="rebalancing", rebalancing=now)
    text = f"rebalancing since {rfc3339(since)[11:19]} UTC (member b joined), waiting for a (2 min 10 s left)"
    show(group_lines(group_overview("g", [latest(builder)], [newest._replace(episode=episode)], []), since + 2000))
    assert capsys.readouterr().out.startswith(f"g  consumer, {text}, 2 members  ")
    members = structs.replace(episode.members, names=latest(builder).names)
    show(episode_lines(structs.replace(episode, members=members), since + 2000))
    assert capsys.readouterr().out.splitlines()[2] == f"  {text}"
