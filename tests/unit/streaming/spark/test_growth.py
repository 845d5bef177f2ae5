"""New partitions are read when nothing of the old layout is left in the old ones."""

from __future__ import annotations

from streaming.spark.growth import SETTLE_SECONDS, Growth


def batch(**offsets: int) -> dict[str, object]:
    ends = {name.removeprefix("p"): offset for name, offset in offsets.items()}
    return {"sources": [{"endOffset": {"m": ends}}, {"endOffset": {"ticks": {"0": 1}}}, {"endOffset": None}]}


def grown() -> Growth:
    growth = Growth("m", 2)
    assert growth.seen(4, 100.0)
    return growth


def test_the_same_count_is_no_news() -> None:
    growth = Growth("m", 2)
    assert not growth.seen(2, 0.0)
    assert not growth.pending
    growth = grown()
    assert not growth.seen(4, 101.0)


def test_the_offsets_are_those_of_the_last_batch() -> None:
    growth = Growth("m", 2)
    assert growth.offsets == {}
    growth.progress(batch(p0=5, p1=7), 1.0)
    growth.progress({}, 2.0)
    assert growth.offsets == {0: 5, 1: 7}


def test_producers_get_time_to_notice() -> None:
    growth = grown()
    growth.progress(batch(p0=50, p1=50), 100.0)
    assert not growth.ready()
    assert not growth.wants_ends(99.0 + SETTLE_SECONDS)
    assert growth.wants_ends(100.0 + SETTLE_SECONDS)


def test_then_the_old_partitions_are_read_to_their_end() -> None:
    growth = grown()
    growth.ends({0: 60, 1: 50}, 140.0)
    growth.progress(batch(p0=59, p1=50), 141.0)
    assert not growth.ready()
    growth.progress(batch(p0=60, p1=51), 142.0)
    assert growth.ready()
    growth.done()
    assert (growth.partitions, growth.pending, growth.ready()) == (4, False, False)


def test_a_look_that_finds_nothing_says_that_the_end_is_reached() -> None:
    growth = grown()
    growth.ends({0: 60, 1: 50}, 140.0)
    growth.progress({"timestamp": "…"}, 139.0)
    assert not growth.ready()
    growth.progress({"timestamp": "…"}, 141.0)
    assert growth.ready()


def test_growth_by_a_whole_multiple_keeps_order() -> None:
    assert grown().in_order
    odd = Growth("m", 4)
    odd.seen(6, 0.0)
    assert not odd.in_order


def test_an_empty_partition_is_read_once_somebody_has_looked() -> None:
    growth = grown()
    growth.ends({0: 0, 1: 0}, 140.0)
    assert not growth.ready()
    growth.progress(batch(p0=0, p1=0), 139.0)
    assert growth.ready()


def test_a_look_at_the_very_moment_may_have_come_before_the_last_event() -> None:
    growth = grown()
    growth.ends({0: 60}, 140.0)
    growth.progress({"timestamp": "…"}, 140.0)
    assert not growth.ready()
    growth.progress(batch(p0=10), 150.0)  # a batch is no look that found nothing
    assert not growth.ready()


def test_ends_are_asked_for_once_and_anew_when_the_topic_grows_again() -> None:
    growth = grown()
    assert growth.wants_ends(100.0 + SETTLE_SECONDS)
    growth.ends({0: 60}, 140.0)
    assert not growth.wants_ends(500.0)
    assert growth.seen(8, 600.0)
    assert (growth.target, growth.ready()) == (8, False)
    assert [growth.wants_ends(at + SETTLE_SECONDS) for at in (599.0, 600.0)] == [False, True]
    growth.ends({0: 60}, 650.0)
    growth.progress(batch(p0=60), 651.0)
    growth.done()
    assert not growth.wants_ends(900.0)
    assert growth.seen(16, 1000.0)
    assert not growth.ready()
