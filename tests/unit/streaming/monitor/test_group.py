import pytest

from assignors.errors import BadInput
from streaming.monitor.group import apply
from streaming.records.events import MemberJoined, PartitionsChanged, SubscriptionChanged, TopicMetadata
from tests.support.histories import Log, diffs, play


@pytest.mark.parametrize(
    ("to", "rounds"), [(["a", "b"], 0), (["b", "a"], 0), (["a", "b", "c"], 1), (["a"], 1), (["c"], 1), ([], 1)]
)
def test_different_topics_are_another_subscription(to: list[str], rounds: int) -> None:
    log = Log()
    state, _ = play([log.topics(a=1, b=1, c=1), log.join("c1", "a", "b")])
    assert len(diffs(play([log.event(SubscriptionChanged, member_id="c1", topics=to)], state)[1])) == rounds
    state, outputs = play([log.event(MemberJoined, member_id="c1", topics=to)], state)
    assert len(diffs(outputs)) == rounds


@pytest.mark.parametrize(("count", "refused"), [(1, True), (2, False), (3, True)])
def test_topic_has_racks_for_all_partitions_or_none(count: int, refused: bool) -> None:
    log = Log()
    event = log.event(PartitionsChanged, topics={"t": TopicMetadata(partitions=2, racks=[["r"]] * count)})
    if refused:
        with pytest.raises(BadInput, match=r"topics\.t\.racks"):
            apply(None, event)
        return
    (diff,) = diffs(play([event, log.join("c1")])[1])
    assert diff.members["c1"].assigned == {"t": [0, 1]}


@pytest.mark.parametrize("alias", ["a", "t"])
def test_topic_id_of_two_topics_is_refused(alias: str) -> None:
    topic_metadata = TopicMetadata(partitions=1, topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    log = Log()
    state, _ = apply(None, log.event(PartitionsChanged, topics={"s": topic_metadata}))
    with pytest.raises(BadInput, match=rf"topics\.{alias}\.topicId: AAAAAAAAAAAAAAAAAAAAAg is also that of s"):
        apply(state, log.event(PartitionsChanged, topics={alias: topic_metadata}))
    assert apply(state, log.event(PartitionsChanged, topics={"s": topic_metadata}))[1] == ()
