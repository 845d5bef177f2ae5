from streaming.monitor.state import MAX_FINGERPRINTS, TopicState, add_fingerprint, existing_last_owners
from tests.support.histories import Log, play


def test_repeated_event_is_ignored_after_later_events(log: Log) -> None:
    events = [log.topics(t=2), log.join("c1"), log.leave("c1")]
    state, outputs = play(events)
    assert len(outputs) == 4
    assert play(events, state) == (state, [])


def test_repeated_leave_from_before_its_join_is_ignored(log: Log) -> None:
    early_leave = log.leave("c1")
    state, _ = play([log.topics(t=1), early_leave, log.join("c1")])
    assert play([early_leave], state)[1] == []


def test_same_id_from_another_source_is_another_event() -> None:
    assert add_fingerprint(b"", "a", "1") != add_fingerprint(b"", "b", "1")
    assert add_fingerprint(b"", "a", "b\0c") != add_fingerprint(b"", "a\0b", "d")


def test_only_the_newest_event_ids_are_remembered() -> None:
    memory = b""
    for number in range(MAX_FINGERPRINTS + 10):
        memory = add_fingerprint(memory, "s", str(number)) or b""
    repeats = [add_fingerprint(memory, "s", str(number)) is None for number in range(MAX_FINGERPRINTS + 10)]
    assert repeats == [False] * 10 + [True] * MAX_FINGERPRINTS


def test_fingerprint_at_a_wrong_offset_is_no_match() -> None:
    mark = add_fingerprint(b"", "s", "1")
    assert mark is not None
    assert add_fingerprint(mark, "s", "1") is None
    assert add_fingerprint(b"abcd" + mark + b"efgh", "s", "1") is not None


def test_last_owners_of_deleted_partitions_are_forgotten() -> None:
    """A topic that is recreated with fewer partitions loses the last owners of the removed partitions."""
    last = {"t": {0: "a", 3: "b"}, "shrunk": {2: "a"}, "without-metadata": {7: "c"}}
    topics = {"t": TopicState(3), "shrunk": TopicState(1)}
    assert existing_last_owners(last, topics) == {"t": {0: "a"}, "without-metadata": {7: "c"}}
