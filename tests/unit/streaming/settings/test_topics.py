from __future__ import annotations

import pytest

from streaming.settings.config import load
from streaming.settings.section import InvalidSettings


def test_prefix_length_is_limited_by_kafkas_topic_names() -> None:
    """Kafka's limit of 249 characters applies to the prefix with the longest of the monitor's topic names."""
    topics = load(topic_prefix="p" * (249 - len("rebalance.membership-dlt"))).topics
    names = (*topics.made, topics.ticks)
    assert max(map(len, names)) == 249
    with pytest.raises(InvalidSettings, match=r"topics\.prefix"):
        load(topic_prefix="p" * (250 - len("rebalance.membership-dlt")))
