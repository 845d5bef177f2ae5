import json
from collections.abc import Sequence

import pytest
from msgspec import structs

from streaming.recording.overview import (
    MAX_LISTED_EPISODES,
    GroupOverview,
    NoEpisodeAtTime,
    OwnerLine,
    episode_at,
    group_overview,
    group_overviews,
    owner_lines,
)
from streaming.records.codec import encode
from streaming.records.diffs import UnknownGroup
from streaming.records.episodes import Downtime, EpisodeRecord, IncidentRecord
from streaming.settings.config import ServiceLevel
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import (
    ENDED_MS,
    FLAPPY_INCIDENTS,
    RESTARTED_MS,
    STARTED_MS,
    checkout_group,
    episode_records,
    latest,
)

GROUP = "team/checkout"
QUIET_MS = 120_000
NOW_MS = ENDED_MS + 60_000
CHECKOUT, EPISODES = latest(checkout_group()), episode_records(checkout_group())
DOWNTIME = Downtime(lower_ms=5, upper_ms=9, total_ms=(5, 9), bounded_ms=9)
EPISODES_WITH_DOWNTIME = [
    EpisodeRecord(structs.replace(record.episode, downtime=DOWNTIME), b"{}") for record in EPISODES
]


def checkout_overview(
    records: list[EpisodeRecord], now_ms: int = NOW_MS, levels: Sequence[ServiceLevel] = ()
) -> GroupOverview:
    (overview,) = group_overviews([CHECKOUT], records, [], now_ms, levels)
    return overview


def test_groups_are_sorted_and_have_their_newest_episode() -> None:
    second = DiffBuilder(group_id="a").join("x")
    records = [*EPISODES, *episode_records(second, over=False)]
    overviews = group_overviews([CHECKOUT, latest(second)], records, [], NOW_MS)
    shown = [(overview.latest.group_id, overview.state, len(overview.episodes)) for overview in overviews]
    assert shown == [("a", "settled", 1), (GROUP, "settled", 1)]
    assert overviews[1].newest is not None
    assert (overviews[1].newest.episode, overviews[1].newest.kind) == (2, "rolling-restart")


def test_first_episode_after_a_reset_is_the_newest() -> None:
    first, second = (record._replace(written=1) for record in EPISODES)
    again = EpisodeRecord(structs.replace(first.episode, opened_at=ENDED_MS + 1), b"{}", written=2)
    assert episode_at(GROUP, [again, second], None, QUIET_MS) is again
    assert checkout_overview([second, again]).episodes == checkout_overview([again, second]).episodes == [again]


@pytest.mark.parametrize("clock_ahead_ms", [2 * 3_600_000, 1000 * 31_557_600_000])
def test_episode_with_future_time_hides_no_newer_one(clock_ahead_ms: int) -> None:
    first, second = EPISODES
    ahead = structs.replace(first.episode, opened_at=first.episode.opened_at + clock_ahead_ms)
    early, late = EpisodeRecord(ahead, b"{}", written=1), second._replace(written=2)
    assert episode_at(GROUP, [late, early], None, QUIET_MS) is late
    assert checkout_overview([late, early]).episodes == [late]


def test_episode_with_the_higher_number_is_chosen_at_equal_times() -> None:
    first, second = EPISODES
    level = EpisodeRecord(structs.replace(second.episode, opened_at=first.episode.opened_at), b"{}")
    assert episode_at(GROUP, [level, first], None, QUIET_MS) is level


def test_overview_of_a_group_without_members_or_episodes() -> None:
    builder = DiffBuilder().join("a").leave("a")
    (empty,) = group_overviews([latest(builder)], episode_records(builder), [], NOW_MS)
    (unknown,) = group_overviews([latest(DiffBuilder().join("a"))], [], [], NOW_MS)
    assert (empty.state, unknown.state, unknown.newest) == ("empty", None, None)
    assert json.loads(encode(unknown.line())) == {
        "groupId": "g",
        "kind": "consumer",
        "state": None,
        "status": "stable",
        "since": 1_700_000_001_000,
        "reason": None,
        "awaited": [],
        "members": 1,
        "episode": None,
        "lag": None,
        "downtimeToday": None,
        "incidents": [],
    }


def test_downtime_today_counts_episodes_with_a_round_today() -> None:
    first, second = EPISODES_WITH_DOWNTIME
    day = 86_400_000
    yesterday = structs.replace(first.episode, opened_at=NOW_MS - 2 * day, updated_at=NOW_MS - day)
    both = checkout_overview([first, second])
    assert both.today == Downtime(lower_ms=10, upper_ms=18, total_ms=(10, 18), bounded_ms=18)
    assert checkout_overview([second, EpisodeRecord(yesterday, b"{}")]).today == DOWNTIME
    assert checkout_overview([first, second], NOW_MS + day).today is None
    assert json.loads(encode(both.line()))["downtimeToday"]["upperMs"] == 18


def test_line_has_the_episode_as_in_the_topic() -> None:
    builder = checkout_group()
    builder.kind = "connect"
    last = episode_records(builder)[-1]
    later = EpisodeRecord(last.episode, last.value[:-1] + b',\n"new": 1}')
    (overview,) = group_overviews([latest(builder)], [later], [], NOW_MS)
    assert encode(overview.line()) == (
        b'{"groupId":"team/checkout","kind":"connect","state":"settled","status":"stable","since":%d,"reason":null,'
        b'"awaited":[],"members":3,"lag":null,"downtimeToday":null,"episode":'
        % (last.episode.closed_at or 0)
        + last.value[:-1]
        + b',"new":1},"incidents":[]}'
    )


def test_open_incidents_are_listed_with_their_group_as_records() -> None:
    wrong = [IncidentRecord(incident, encode(incident)) for incident in FLAPPY_INCIDENTS]
    flappy_assignment = latest(DiffBuilder(group_id="flappy").join("a"))
    overviews = group_overviews([CHECKOUT, flappy_assignment], [], wrong, NOW_MS)
    assert [[incident.incident.incident for incident in group.incidents] for group in overviews] == [[3, 2], []]
    values = b",".join(value for _, value in overviews[0].incidents)
    for answer in (overviews[0].line(), group_overview("flappy", [flappy_assignment], [], wrong).document()):
        assert encode(answer).endswith(b'"incidents":[' + values + b"]}")
    assert group_overview(GROUP, [CHECKOUT], [], wrong).incidents == []


def test_members_are_shown_by_display_name() -> None:
    lines = owner_lines(CHECKOUT)
    assert [(line.name, line.member_id, line.client_host, line.owned) for line in lines] == [
        ("pay (h1)", "pay@h1#2", "/h1", {"t": [2, 3]}),
        ("pay (h2)", "pay@h2#2", "/h2", {"t": [4, 5]}),
        ("web-0", "web@h1#1=web-0", "/h1", {"t": [0, 1]}),
    ]
    assert '"standby"' not in encode(lines[0]).decode()


def test_member_without_names_is_shown_by_id() -> None:
    assignment = structs.replace(
        latest(DiffBuilder(2).join("a")), names={}, standby={"a": {"t": [1]}}, warmup={"b": {"t": [0]}}
    )
    assert owner_lines(assignment) == [
        OwnerLine(
            member_id="a",
            name="a",
            client_id=None,
            client_host=None,
            group_instance_id=None,
            owned={"t": [0, 1]},
            standby={"t": [1]},
            warmup={},
        )
    ]


def test_latest_episodes_of_a_group_are_newest_first() -> None:
    builder = DiffBuilder()
    for number in range(MAX_LISTED_EPISODES + 2):
        builder.join(f"m{number}", after=1000)
    overview = group_overview("g", [latest(DiffBuilder(group_id="h")), latest(builder)], episode_records(builder), [])
    wanted = list(range(MAX_LISTED_EPISODES + 2, 2, -1))
    assert [episode.episode.episode for episode in overview.episodes] == wanted
    answer = json.loads(encode(overview.document()))
    assert [row["episode"] for row in answer["episodes"]] == wanted
    assert (answer["groupId"], answer["kind"], answer["state"]) == ("g", "consumer", "settled")
    assert (answer["protocol"], answer["assignor"]) == ("classic", "range")
    assert (answer["generation"], answer["groupEpoch"], answer["timestamp"]) == (12, None, builder.now)
    assert [row["memberId"] for row in answer["members"]] == sorted(f"m{number}" for number in range(12))


def test_overview_of_deleted_or_unknown_group_is_refused() -> None:
    with pytest.raises(UnknownGroup, match="group g: not found; `rebalance-monitor groups`"):
        group_overview("g", [CHECKOUT], EPISODES, [])
    with pytest.raises(UnknownGroup, match=f"group {GROUP}: deleted; .*why {GROUP}"):
        group_overview(GROUP, [], EPISODES, [])
    with pytest.raises(UnknownGroup, match="group g: has no episode"):
        episode_at("g", EPISODES, None, QUIET_MS)
    with pytest.raises(UnknownGroup, match="group g: has no episode"):
        episode_at("g", [], 1, QUIET_MS)


@pytest.mark.parametrize(
    ("at", "number"),
    [(STARTED_MS, 1), (STARTED_MS + QUIET_MS, 1), (RESTARTED_MS, 2), (ENDED_MS, 2), (ENDED_MS + QUIET_MS, 2)],
)
def test_episode_is_open_until_the_quiet_time_has_passed(at: int, number: int) -> None:
    assert episode_at(GROUP, EPISODES, at, QUIET_MS).episode.episode == number


def test_unfinished_episode_stays_open() -> None:
    unfinished = episode_records(checkout_group(), over=False)
    assert episode_at(GROUP, unfinished, ENDED_MS + 10 * QUIET_MS, QUIET_MS).episode.episode == 2


@pytest.mark.parametrize(
    ("at", "time"),
    [
        (STARTED_MS - 1, "22:13:20.999Z: episode 1 began at 2023-11-14T22:13:21.000Z"),
        (
            STARTED_MS + QUIET_MS + 1,
            "22:15:21.001Z: episode 1 ended at 2023-11-14T22:13:21.000Z, episode 2 began at 2023-11-14T22:23:21.000Z",
        ),
        (ENDED_MS + QUIET_MS + 1, "22:25:36.001Z: episode 2 ended at 2023-11-14T22:23:36.000Z"),
    ],
)
def test_no_open_episode_names_the_neighbours_and_exits_1(at: int, time: str) -> None:
    with pytest.raises(NoEpisodeAtTime) as refused:
        episode_at(GROUP, EPISODES, at, QUIET_MS)
    assert str(refused.value) == f"group {GROUP}: no episode was open at 2023-11-14T{time}"
    assert refused.value.exit_status == 1


def test_first_matching_service_level_applies() -> None:
    levels = [ServiceLevel(groups="other", downtime_day_ms=1), ServiceLevel(groups="team/.*", downtime_day_ms=100)]
    overview = checkout_overview(EPISODES_WITH_DOWNTIME, levels=levels)
    assert overview.line()["slo"].budget_left == (0.82, 0.9)
    assert "slo" not in checkout_overview(EPISODES_WITH_DOWNTIME, levels=levels[:1]).line()
