import pytest
from msgspec import structs

from streaming.episodes.story import story
from streaming.records.episodes import Bounds, Downtime, Episode, PartitionDowntime, Waiting
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import QuietNote, episodes
from tests.unit.streaming.episodes.test_kinds import restart_one_by_one, started, storm

STORY_DATE = "2023-11-14"


def last_story(builder: DiffBuilder) -> str:
    return episodes("checkout", builder.diffs)[-1].story


def over(builder: DiffBuilder) -> Episode:
    return episodes("checkout", [*builder.diffs, QuietNote(builder.diffs[-1][0])])[-1]


def test_rolling_restart_story_counts_members_and_moves() -> None:
    ids = [f"pay-{number}@h{number}#1" for number in range(10)]
    assert over(restart_one_by_one(started(*ids, partitions=20), *ids, seconds=15)).story == (
        f"Rolling restart of 10 members, {STORY_DATE} 23:13–23:18 UTC: 20 partitions moved, 20 more than once."
    )


def test_a_storm_names_its_member_and_the_time_between() -> None:
    assert last_story(storm(started())) == (
        f"Rebalanced 8 times in 1 minute because of a (4 times, about every 20 s), {STORY_DATE} 23:13–23:14 UTC: "
        "12 partitions moved, 6 more than once. Not settling."
    )


def test_awaited_condition_is_reported() -> None:
    record = structs.replace(
        over(started().join("d@h4#1")),
        status="stuck",
        waiting_for=[
            Waiting(
                since=1_700_000_000_000,
                reason="to give up partitions",
                member_id="d@h4#1",
                partitions={"t": [0, 1, 2], "u": [0]},
                until=1_700_000_060_000,
            )
        ],
    )
    assert story(record).endswith(
        "Stuck: waiting for d to give up t 0, t 1, t 2 and 1 more since 22:13:20, until 22:14:20."
    )
    assert story(structs.replace(record, status="settling", waiting_for=[])).endswith(". Settling.")
    assert story(structs.replace(record, waiting_for=[])).endswith(". Stuck.")


def _downtime(longest: Bounds, total: Bounds, stops: Bounds, unbounded: int = 0) -> Downtime:
    longest_part = PartitionDowntime(topic="orders", partition=17, lower_ms=longest[0], upper_ms=longest[1])
    return Downtime(
        lower_ms=total[0],
        upper_ms=total[1],
        longest_ms=longest,
        total_ms=total,
        stops=stops,
        worst=longest_part,
        partitions=2,
        unbounded=unbounded,
    )


@pytest.mark.parametrize(
    ("downtime", "text"),
    [
        (_downtime((9400, 121_000), (9400, 121_000), (1, 1)), "each down 9.4 s to 2 min (orders 17)."),
        (_downtime((0, 3100), (0, 9400), (3, 4)), "each down at most 3.1 s, at most 9.4 s in all."),
        (_downtime((2800, 3100), (5000, 6900), (7, 7)), "each down 2.8 s to 3.1 s, 5.0 s to 6.9 s in all."),
        (
            _downtime((46, None), (50, None), (2, None), unbounded=12),
            "down ≥ 46 ms (orders 17), no upper limit known for 12 partitions.",
        ),
        (_downtime((0, None), (0, None), (1, 1), unbounded=1), "moved, no upper limit known for 1 partition."),
        (None, "6 partitions moved."),
    ],
)
def test_story_ends_with_longest_and_total_downtime(downtime: Downtime | None, text: str) -> None:
    record = structs.replace(over(started(partitions=24).join("d@h4#1")), downtime=downtime, moved=6)
    assert story(record).endswith(text)


def test_bounce_without_a_round_shows_its_downtime() -> None:
    downtime = structs.replace(_downtime((900, 4000), (900, 4000), (1, 1)), partitions=1)
    record = structs.replace(over(started()), moved=0, round_count=0, downtime=downtime)
    assert story(record).endswith(": no rebalance, down 900 ms to 4.0 s (orders 17).")


def test_story_over_midnight_has_two_dates() -> None:
    record = structs.replace(over(started().join("d@h4#1")), opened_at=1_700_000_000_000 - 86_400_000)
    assert ", 2023-11-13 22:13–2023-11-14 23:13 UTC:" in story(record)


def test_many_members_are_counted() -> None:
    assert last_story(started().join(*(f"n{number}@h#1" for number in range(4)))).startswith(
        "Scaled out from 3 to 7 members (4 members joined), "
    )


def test_restart_lists_new_and_lost_members() -> None:
    builder = restart_one_by_one(started(), "a@h1#1", "b@h2#1").leave("c@h3#1", after=10).join("d@h4#1", after=10)
    assert last_story(builder).startswith("Rolling restart of 2 of 3 members (d joined, c did not come back), ")
