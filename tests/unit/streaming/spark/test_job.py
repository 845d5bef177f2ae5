"""Options and failures of the job, without a JVM."""

from __future__ import annotations

import pytest

from streaming.spark.job import InvalidStreamOptions, StreamOptions, cluster_is_away


@pytest.mark.parametrize("options", [{"buckets": 0}, {"max_offsets_per_trigger": 0}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidStreamOptions, match="at least 1"):
        StreamOptions(checkpoint="c", **options)  # type: ignore[arg-type]


def test_only_brokers_that_do_not_answer_are_waited_for() -> None:
    assert cluster_is_away("Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out")
    assert not cluster_is_away("org.apache.kafka.common.errors.TopicAuthorizationException: no")
