from __future__ import annotations

from streaming.monitor.state import TopicState, prune


def test_last_owners_of_deleted_partitions_are_forgotten() -> None:
    """A topic was created again with fewer partitions: partitions added later have no last owner."""
    last = {"t": {0: "a", 3: "b"}, "gone": {2: "a"}, "undelivered_rounds-of": {7: "c"}}
    topics = {"t": TopicState(3), "gone": TopicState(1)}
    assert prune(last, topics) == {"t": {0: "a"}, "undelivered_rounds-of": {7: "c"}}
