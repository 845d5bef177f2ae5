"""After a topic has grown, its new partitions are read only once all earlier records of the old partitions are read."""

from streaming.spark.supervisor import GROWTH_CONFIRM_SECONDS, PartitionGrowth


def batch(**offsets: int) -> dict[str, object]:
    ends = {name.removeprefix("p"): offset for name, offset in offsets.items()}
    return {"sources": [{"endOffset": {"m": ends}}, {"endOffset": {"ticks": {"0": 1}}}, {"endOffset": None}]}


def grown() -> PartitionGrowth:
    growth = PartitionGrowth("m", 2)
    assert growth.set_count(4, 100.0)
    return growth


def test_only_a_larger_partition_count_starts_growth() -> None:
    growth = PartitionGrowth("m", 2)
    assert not growth.set_count(2, 0.0)
    assert not growth.is_pending
    growth = grown()
    assert not growth.set_count(4, 101.0)


def test_growth_waits_until_producers_know_the_new_partitions() -> None:
    growth = grown()
    growth.add_progress(batch(p0=50, p1=50), 100.0)
    growth.set_end_offsets({0: 50, 1: 50}, 99.0 + GROWTH_CONFIRM_SECONDS)
    assert not growth.is_ready()
    growth.set_end_offsets({0: 50, 1: 50}, 100.0 + GROWTH_CONFIRM_SECONDS)
    assert growth.is_ready()


def test_the_old_partitions_are_read_to_their_end() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60, 1: 50}, 140.0)
    growth.add_progress(batch(p0=59, p1=50), 141.0)
    assert not growth.is_ready()
    growth.add_progress(batch(p0=60, p1=51), 142.0)
    assert growth.is_ready()
    growth.finish()
    assert (growth.partitions, growth.is_pending, growth.is_ready()) == (4, False, False)


def test_growth_is_ready_after_a_later_empty_trigger() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60, 1: 50}, 140.0)
    growth.add_progress({"timestamp": "…"}, 139.0)
    assert not growth.is_ready()
    growth.add_progress({"timestamp": "…"}, 141.0)
    assert growth.is_ready()


def test_only_a_trigger_after_the_end_offsets_finishes_growth() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60}, 140.0)
    growth.add_progress({"timestamp": "…"}, 140.0)
    assert not growth.is_ready()
    growth.add_progress(batch(p0=10), 150.0)  # a batch with records does not count as an empty check
    assert not growth.is_ready()


def test_second_growth_of_a_topic_needs_new_end_offsets() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60}, 140.0)
    assert growth.set_count(8, 600.0)
    assert (growth.target, growth.is_ready()) == (8, False)
    growth.set_end_offsets({0: 60}, 599.0 + GROWTH_CONFIRM_SECONDS)  # this is too early
    growth.add_progress(batch(p0=60), 636.0)
    assert not growth.is_ready()
    growth.set_end_offsets({0: 60}, 600.0 + GROWTH_CONFIRM_SECONDS)
    assert growth.is_ready()
    growth.finish()
    assert growth.set_count(16, 1000.0)
    assert not growth.is_ready()
