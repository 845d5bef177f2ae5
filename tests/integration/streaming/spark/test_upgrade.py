"""The stream goes on with the checkpoint of the release before, as if nothing had happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streaming.kafka.clients import check_reachable
from streaming.kafka.identity import identify
from tests.support import upgrades
from tests.support.kafka import Kafka
from tests.support.stream_job import Job, compacted, expected, once

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_the_checkpoint_of_the_release_before_is_continued(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path, prefix=upgrades.PREFIX)
    kafka, names = job.settings.kafka, job.settings.topics
    topics = upgrades.topics()
    before, later = topics["rebalance.membership"], topics["later"]
    for name in upgrades.TOPICS:
        job.restore(upgrades.PREFIX + name, topics[name])
    known = identify(kafka, [names.membership])[names.membership]
    assert known is not None
    # The cluster of this test stands for the one of the release: only its ids are others.
    job.checkpoint = upgrades.checkpoint(tmp_path, clusterId=check_reachable(kafka), topicId=known.topic_id)
    job.feed(upgrades.as_topic(later))
    job.drain("--buckets", "4")

    undisturbed = expected(job, upgrades.as_topic([*before, *later]))
    found = once(job.rows(names.diffs))
    assert found.keys() == undisturbed[names.diffs].keys()
    old = {dict(row["headers"])["ce_id"] for row in topics["rebalance.diffs"]}
    for key, rows in undisturbed[names.diffs].items():
        assert [headers for _, headers in found[key]] == [headers for _, headers in rows]
        for (value, headers), (wanted, _) in zip(found[key], rows, strict=True):
            if dict(headers)["ce_id"] in old:
                told = json.loads(value or b"")
                assert upgrades.narrowed(json.loads(wanted or b""), told) == told
            else:
                assert value == wanted
    assert len(old) < sum(map(len, found.values()))
    latest, wanted = compacted(job.rows(names.assignments)), undisturbed[names.assignments]
    assert latest.keys() == wanted.keys()
    changed = {row["key"] for row in later} & found.keys()
    assert {key: json.loads(latest[key][0][0] or b"null") for key in changed} == {
        key: json.loads(wanted[key][0][0] or b"null") for key in changed
    }
