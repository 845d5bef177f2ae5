"""``stream``: its options reach the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streaming.spark import job
from streaming.spark.options import StreamOptions
from streaming.spark.session import SessionOptions

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the job was started with."""
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(job, "run", lambda *given: started.append(given))
    return started


def test_without_options_it_runs_with_its_defaults(
    command: Command, jobs: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    folder = str(tmp_path / "c")
    assert command("stream", "--checkpoint", folder)[0] == 0
    ((settings, options, stop, _),) = jobs
    assert (settings.kafka.bootstrap_servers, stop.is_set()) == ("127.0.0.1:9092", False)
    assert options == StreamOptions(
        checkpoint=folder,
        available_now=False,
        max_offsets_per_trigger=50_000,
        batch_seconds=20.0,
        trigger_interval=None,
        buckets=None,  # those of the checkpoint; 16 in a new one
        forget_after_ms=7 * 24 * 3600 * 1000,
        session=SessionOptions(master="local[2,4]", log_file=Path(folder) / "spark.log", verbose=False),
        metrics_host="127.0.0.1",
        metrics_port=None,
        on_data_loss="stop",
    )


def test_each_option_is_handed_on(command: Command, jobs: list[tuple[Any, ...]]) -> None:
    words = (
        *("--checkpoint", "s3://bucket/c", "--available-now", "--max-offsets-per-trigger", "7"),
        *("--batch-seconds", "1.5", "--trigger-interval", "500ms", "--buckets", "4", "--forget-after", "12h"),
        *(
            "--master",
            "local[1]",
            "--on-data-loss",
            "restart",
            "--metrics-host",
            "::1",
            "--metrics-port",
            "9",
        ),
        *("--bootstrap-servers", "k:1", "--verbose"),
    )
    assert command("stream", *words)[0] == 0
    ((settings, options, _, _),) = jobs
    assert settings.kafka.bootstrap_servers == "k:1"
    assert options == StreamOptions(
        checkpoint="s3://bucket/c",
        available_now=True,
        max_offsets_per_trigger=7,
        batch_seconds=1.5,
        trigger_interval="500ms",
        buckets=4,
        forget_after_ms=12 * 3600 * 1000,
        session=SessionOptions(master="local[1]", log_file=None, verbose=True),
        metrics_host="::1",
        metrics_port=9,
        on_data_loss="restart",
    )


def test_without_a_checkpoint_it_does_not_start(command: Command, jobs: list[tuple[Any, ...]]) -> None:
    assert command("stream") == (
        2,
        "",
        "error: --checkpoint DIR is needed: the folder for the job's offsets and state\n",
    )
    assert jobs == []
