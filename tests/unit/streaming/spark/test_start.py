"""Records that were lost before the start are reported per partition, with the options for continuing."""

from pathlib import Path

import pytest

from assignors.errors import OutsideFailure
from streaming.freshness import ComponentHeartbeat
from streaming.settings.config import Settings
from streaming.spark import start
from streaming.spark.failures import RECORDS_LOST
from streaming.spark.start import (
    OffsetSpan,
    StreamOptions,
    count_repeated_records,
    lost_records_text,
    missing_ranges,
    spans,
)


def batch(folder: Path, number: int, *sources: str, done: bool) -> None:
    """Write a batch into the offset log as Spark does; each source has its own end offsets."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "offsets" / str(number)).write_text(
        "\n".join(['v1\n{"conf":{"spark.sql.shuffle.partitions":"2"}}', *sources])
    )
    if done:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.mark.parametrize(
    ("last_done", "unfinished", "expected"),
    [
        ('{"m":{"0":4,"1":7}}', None, {0: OffsetSpan(4, 4), 1: OffsetSpan(7, 7)}),
        ('{"m":{"0":4,"1":7}}', '{"m":{"0":6,"1":7,"2":3}}', {0: OffsetSpan(4, 6), 1: OffsetSpan(7, 7)}),
        ('{"m":{"0":4}}', '{"m":{"0":0}}', {0: OffsetSpan(4, 4)}),  # the batch ends before its begin
        (None, '{"m":{"0":4}}', {}),  # a first batch counts as unread until it is committed
        (None, None, {}),
    ],
)
def test_start_repeats_an_unfinished_batch_with_its_end(
    tmp_path: Path, last_done: str | None, unfinished: str | None, expected: dict[int, OffsetSpan]
) -> None:
    if last_done is not None:
        batch(tmp_path, 9, last_done, '{"ticks":{"0":2}}', done=True)
    if unfinished is not None:
        batch(tmp_path, 10 if last_done else 0, unfinished, "-", done=False)
    assert spans(str(tmp_path), "m") == expected
    assert spans(str(tmp_path), "another") == {}


def heartbeat(**positions: int) -> ComponentHeartbeat:
    read = {int(number.lstrip("p")): offset for number, offset in positions.items()}
    return ComponentHeartbeat(
        part="stream", id="rebalance-monitor", state="stopped", timestamp=1, up_to=1, every_ms=5000, positions=read
    )


@pytest.mark.parametrize(
    ("last", "repeated"),
    [(heartbeat(p0=6, p1=7), 0), (heartbeat(p0=10, p1=9, p2=5), 6), (heartbeat(p0=2), 0), (None, 0)],
    ids=["same", "older-checkpoint", "newer-checkpoint", "no-heartbeat"],
)
def test_records_beyond_an_older_checkpoint_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: ComponentHeartbeat | None, repeated: int
) -> None:
    monkeypatch.setattr(start, "last_heartbeat", lambda *_: (last, 0.0))
    batch(tmp_path, 9, '{"m":{"0":4,"1":7}}', "-", done=True)
    batch(tmp_path, 10, '{"m":{"0":6,"1":7}}', "-", done=False)
    assert count_repeated_records(Settings(), str(tmp_path), "m") == repeated


def test_unreadable_heartbeats_give_no_repeated_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_refusal(*_: object) -> None:
        raise OutsideFailure

    monkeypatch.setattr(start, "last_heartbeat", raise_refusal)
    batch(tmp_path, 9, '{"m":{"0":4}}', "-", done=True)
    assert count_repeated_records(Settings(), str(tmp_path), "m") == 0


@pytest.mark.parametrize("source", ['{"m":4}', '{"m":{"x":4}}', '{"m":{"0":"4"}}', "4"])
def test_invalid_checkpoint_offsets_are_reported_as_damage(tmp_path: Path, source: str) -> None:
    batch(tmp_path, 0, source, done=True)
    with pytest.raises(OutsideFailure, match="offsets is damaged"):
        spans(str(tmp_path), "m")


def test_lost_records_are_reported_by_partition() -> None:
    wanted = {1: OffsetSpan(4, 6), 0: OffsetSpan(3, 3), 2: OffsetSpan(5, 8), 3: OffsetSpan(5, 8)}
    there = {0: (4, 9), 1: (4, 6), 2: (0, 7), 3: (6, 6)}
    assert [*missing_ranges(wanted, there)] == [
        "partition 0 begins at 4, and is read from 3 on",
        "partition 2 ends at 7, and was read to 8",
        "partition 3 begins at 6, and is read from 5 on",
    ]
    assert "lost records, by its retention or with a broker's disk: why. Choose: --on-data-loss" in lost_records_text(
        "m", "why"
    )


@pytest.mark.parametrize(
    "message",
    [
        "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some",
        "Some data may have been lost because they are not available in Kafka any more",
        "[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The",
        "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: x",
    ],
)
def test_spark_errors_are_shown_verbatim(message: str) -> None:
    assert RECORDS_LOST.search(f"Caused by: {message}")
    assert not RECORDS_LOST.search("org.apache.kafka.common.errors.TimeoutException")


def test_jvm_gets_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StreamOptions(checkpoint="state").location == str(tmp_path / "state")
    assert StreamOptions(checkpoint="s3a://bucket/state").location == "s3a://bucket/state"
