"""A repeated event, which the membership log already contains, changes nothing."""

from streaming.monitor.state import MAX_FINGERPRINTS, add_fingerprint
from tests.support.histories import Log, play


def test_repeated_event_is_ignored_after_later_events() -> None:
    log = Log()
    first = [log.topics(t=2), log.join("c1"), log.leave("c1")]
    state, outputs = play(first)
    again, more = play(first, state)
    assert len(outputs) == 4
    assert more == []
    assert again == state


def test_repeated_leave_from_before_its_join_is_ignored() -> None:
    log = Log()
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
