"""What is told of an episode."""

from __future__ import annotations

import pytest
from msgspec import structs

from streaming.episodes.notes import QuietNote
from streaming.episodes.reading import episodes
from streaming.episodes.story import story
from streaming.records.episodes import Bounds, Downtime, Episode, PartitionDowntime, Waiting
from tests.support.told import Teller
from tests.unit.streaming.episodes.test_kinds import CASES, rolling, started, storm

DAY = "2023-11-14"


def told(teller: Teller) -> str:
    return episodes("checkout", teller.told)[-1].story


def over(teller: Teller) -> Episode:
    return episodes("checkout", [*teller.told, QuietNote(teller.told[-1][0])])[-1]


def test_a_rolling_restart() -> None:
    ids = [f"pay-{number}@h{number}#1" for number in range(10)]
    assert over(rolling(started(*ids, partitions=20), *ids, seconds=15)).story == (
        f"Rolling restart of checkout, 10 members ({DAY} 23:13 to 23:18 UTC): 20 rounds, 20 partitions moved, "
        "20 of them more than once. Settled."
    )


def test_a_storm_names_its_member_and_the_time_between() -> None:
    assert told(storm(started())) == (
        f"checkout rebalanced 8 times in 1 minute because of a: 4 times, about every 20 s "
        f"({DAY} 23:13 to 23:14 UTC): 8 rounds, 12 partitions moved, 6 of them more than once. It is not settling."
    )


def test_every_kind_is_told() -> None:
    heads = {
        name: story(episodes("checkout", make().told)[-1]).partition(" (2023")[0]
        for name, (make, *_) in CASES.items()
    }
    assert heads == {
        "members come": "d joined checkout, which had 3 members and has 4",
        "members leave": "a and b left checkout, which had 3 members and has 1",
        "all leave": "checkout shut down: all 3 members left",
        "all are gone, nobody knows how": "checkout rebalanced, cause unknown: a, b and c departed",
        "one by one": "Rolling restart of checkout, 3 members",
        "all at once": "Restart of checkout, all 3 members at once",
        "one of three": "a of checkout restarted",
        "one of three, nobody knows how": "a of checkout probably restarted",
        "the session of one ends": "a of checkout crashed",
        "it ends, and the member comes back": "a of checkout crashed and came back",
        "it is back before its session ends": "a of checkout crashed and came back",
        "one is gone, nobody knows how": "checkout rebalanced, cause unknown: a departed",
        "one is gone without a reason": "checkout rebalanced, cause unknown: a departed",
        "offset commits make a crash likely": "a of checkout probably crashed",
        "one went, another came": "checkout rebalanced, cause unknown: x joined, a left",
        "it did not poll": "a of checkout exceeded max.poll.interval.ms and was removed",
        "again and again": heads["again and again"],
        "subscription": "Members of checkout changed their subscription",
        "a subscription, which the leader sees as new topics": "Members of checkout changed their subscription",
        "partitions": "Topics of checkout got another number of partitions",
        "assignor": "checkout changed its assignor to sticky",
        "protocol": "checkout migrated to the consumer protocol",
        "coordinator": "The coordinator of checkout moved, its members rejoined",
        "connectors": "checkout changed its connectors or tasks",
        "a connector is deleted": "checkout changed its connectors or tasks",
        "nothing says why": "checkout rebalanced, cause unknown",
        "polled, one by one": "Probably a rolling restart of checkout, 3 members",
        "polled, all between two answers": "checkout rebalanced, cause unknown: a, b and c departed and came back",
        "as members report it, all at once": "Probably a restart of checkout, all 3 members at once",
        "the same client leaves and comes back (KIP-848)": (
            "a of checkout left and came back, probably after exceeding max.poll.interval.ms"
        ),
        "the same client is gone and back (KIP-848)": (
            "checkout rebalanced, cause unknown: a departed and came back"
        ),
        "the session of a client ends, and it is back (KIP-848)": "a of checkout crashed and came back",
        "a later round says why": "Topics of checkout got another number of partitions",
        "a visitor": "checkout rebalanced, cause unknown: d joined, d left",
        "a visitor that crashed": "d of checkout crashed",
        "a default client id on other hosts": "Probably a rolling restart of checkout, 2 of 3 members",
    }


def test_what_is_waited_for_is_told() -> None:
    one = structs.replace(
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
    assert story(one).endswith(
        "Stuck: waiting for d to give up t 0, t 1, t 2 and 1 more since 22:13:20, until 22:14:20."
    )
    assert story(structs.replace(one, status="settling", waiting_for=[])).endswith(". Settling.")
    assert story(structs.replace(one, waiting_for=[])).endswith(". Stuck.")


def _worst(total: Bounds, stops: Bounds) -> PartitionDowntime:
    return PartitionDowntime(
        topic="orders", partition=17, lower_ms=total[0], upper_ms=total[1], longest_ms=total, stops=stops
    )


@pytest.mark.parametrize(
    ("longest", "worst", "said"),
    [
        (
            (9400, 121_000),
            _worst((9400, 121_000), (1, 1)),
            "was between 9.4 s and 2 min (orders 17). Settled.",
        ),
        ((9400, None), _worst((9400, None), (1, 1)), "was at least 9.4 s (orders 17). Settled."),
        (
            (2800, 3100),
            _worst((5000, 6900), (7, 7)),
            "was between 2.8 s and 3.1 s; orders 17 had none 7 times, for between 5.0 s and 6.9 s in all. Settled.",
        ),
        (
            (2800, None),
            _worst((5000, None), (2, None)),
            "was at least 2.8 s; orders 17 had none at least 2 times, for at least 5.0 s in all. Settled.",
        ),
        (
            (0, 3100),
            _worst((0, 3100), (1, 2)),
            "was between 0.0 s and 3.1 s; orders 17 had none 1 to 2 times, for between 0.0 s and 3.1 s in all.",
        ),
    ],
)
def test_longest_stop_sum_and_number_of_stops(longest: Bounds, worst: PartitionDowntime, said: str) -> None:
    known = Downtime(lower_ms=1, upper_ms=2, longest_ms=longest, worst=worst)
    one = structs.replace(over(started().join("d@h4#1")), downtime=known)
    assert f"; the longest time that a partition had no consumer {said}" in story(one)


def test_downtime_without_any_bound_is_left_out() -> None:
    known = Downtime(lower_ms=0, upper_ms=None, worst=_worst((0, None), (1, 1)))
    one = structs.replace(over(started().join("d@h4#1")), downtime=known)
    assert "no consumer" not in story(one)


def test_bounce_without_a_round_shows_its_downtime() -> None:
    known = Downtime(lower_ms=1, upper_ms=2, longest_ms=(900, 4000), worst=_worst((900, 4000), (1, 1)))
    one = structs.replace(over(started()), round_count=0, downtime=known)
    assert (
        "no rebalance, nothing moved; the longest time that a partition had no consumer was between 0.9 s"
        in story(one)
    )


def test_days_are_told_where_it_is_not_one() -> None:
    one = structs.replace(over(started().join("d@h4#1")), opened_at=1_700_000_000_000 - 86_400_000)
    assert "(2023-11-13 22:13 to 2023-11-14 23:13 UTC)" in story(one)


def test_many_members_are_counted() -> None:
    assert told(started().join(*(f"n{number}@h#1" for number in range(4)))).startswith(
        "4 members joined checkout, which had 3 members and has 7 "
    )


def test_who_is_new_or_did_not_come_back_is_told_with_a_restart() -> None:
    teller = rolling(started(), "a@h1#1", "b@h2#1").leave("c@h3#1", after=10).join("d@h4#1", after=10)
    assert told(teller).startswith(
        "Rolling restart of checkout, 2 of 3 members, d joined and c did not come back ("
    )
