"""What an event is refused for before it is looked at as a rebalance."""

from __future__ import annotations

import pytest

from assignors.errors import BadInput
from streaming.monitor.group import apply
from streaming.wire.events import PartitionsChanged, TopicMetadata
from tests.support.histories import Log, diffs, play


@pytest.mark.parametrize(
    "topic",
    [
        TopicMetadata(partitions=2, racks=[["r1"]]),
        TopicMetadata(partitions=2, topic_id="too-short"),
        TopicMetadata(partitions=2, topic_id="AAAAAAAAAAAAAAAAAAAAAg"),
    ],
)
def test_a_topic_that_contradicts_itself_is_refused_before_it_spoils_the_group(topic: TopicMetadata) -> None:
    log = Log()
    first = log.event(
        PartitionsChanged, topics={"s": TopicMetadata(partitions=1, topic_id="AAAAAAAAAAAAAAAAAAAAAg")}
    )
    state, _ = play([first, log.topics(t=1)])
    with pytest.raises(BadInput, match=r"topicId|topics\.t\.racks"):
        apply(state, log.event(PartitionsChanged, topics={"t": topic}))
    assert len(diffs(play([log.join("c1")], state)[1])) == 1
