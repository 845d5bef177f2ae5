"""Records that a producer repeats change nothing, whether in one batch or one record per batch."""

import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from streaming.records.events import Event
from tests.support.histories import Log, log_by_partition
from tests.support.pure_stream import by_key, run
from tests.support.recorded import membership_log


def log_with_repeats(log: list[Event], seed: int) -> list[Event]:
    """Return the log with some events repeated, and with deletions of groups in between."""
    rng = random.Random(seed)
    events: list[Event] = []
    own: dict[str, Log] = defaultdict(Log)
    for event in log:
        events += [event] * rng.choice((1, 1, 2, 3))
        if rng.random() < 0.1:
            group_deletion = own[event.data.group_id].delete(forget=True)
            group = structs.replace(group_deletion.data, group_id=event.data.group_id)
            events += [Event("timer", group_deletion.id, group), event]
    return events


@given(seed=st.integers(0, 10**9))
@settings(max_examples=20)
def test_one_batch_gives_the_same_as_single_records(seed: int) -> None:
    log = log_by_partition(log_with_repeats(list(membership_log(80, 5, seed)), seed), 4)
    assert by_key(run(log, batch=10_000, buckets=1)) == by_key(run(log, batch=1, buckets=1))


def test_repeated_event_of_a_deleted_group_is_applied() -> None:
    log = Log()
    topics, join = log.topics(t=3), log.join("a")
    events = [topics, log.delete(forget=True), topics, join, join]
    small_batches, whole = (by_key(run(log_by_partition(events, 1), batch=batch, buckets=1)) for batch in (1, 10_000))
    assert small_batches == whole
    ((diff, _),) = small_batches["d", b"g"]
    assert diff is not None
    assert b'"assigned":{"t":[0,1,2]}' in diff
