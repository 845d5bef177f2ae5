from streaming.monitor.state import TopicState, existing_last_owners


def test_last_owners_of_deleted_partitions_are_forgotten() -> None:
    """A topic that is recreated with fewer partitions loses the last owners of the removed partitions."""
    last = {"t": {0: "a", 3: "b"}, "shrunk": {2: "a"}, "without-metadata": {7: "c"}}
    topics = {"t": TopicState(3), "shrunk": TopicState(1)}
    assert existing_last_owners(last, topics) == {"t": {0: "a"}, "without-metadata": {7: "c"}}
