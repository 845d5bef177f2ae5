"""The command ``stream`` passes its options to the job."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from streaming.cli import doctor
from streaming.cli.doctor import AssignmentCode
from streaming.cli.stream import report_batches
from streaming.monitor.bucket_state import Bucket
from streaming.process.terminal import console
from streaming.settings.config import StreamSettings
from streaming.spark import archives, job, progress, resize, state
from streaming.spark.progress import BatchReport
from streaming.spark.session import SessionOptions
from streaming.spark.start import StreamOptions
from streaming.spark.state import InspectedGroup
from tests.support.histories import Log, play
from tests.unit.streaming.cli.conftest import Command


@pytest.fixture
def started_jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(job, "run", lambda *arguments: started.append(arguments))
    return started


def test_stream_runs_with_its_default_options(
    command: Command, started_jobs: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    folder = str(tmp_path / "c")
    assert command("stream", "--checkpoint", folder)[0] == 0
    ((settings, options, stop, _),) = started_jobs
    assert (settings.kafka.bootstrap_servers, stop.is_set()) == ("127.0.0.1:9092", False)
    assert options == StreamOptions(
        checkpoint=folder,
        available_now=False,
        max_offsets_per_trigger=50_000,
        trigger_interval_ms=None,
        buckets=None,  # the checkpoint's number; 16 for a new checkpoint
        forget_after_ms=7 * 24 * 3600 * 1000,
        session=SessionOptions(master="local[2,4]", log_file=Path(folder) / "spark.log", verbose=False),
        metrics_host="127.0.0.1",
        metrics_port=None,
        on_data_loss="stop",
    )


def test_stream_options_reach_the_job(command: Command, started_jobs: list[tuple[Any, ...]]) -> None:
    words = (
        *("--checkpoint", "s3://bucket/c", "--available-now", "--max-offsets-per-trigger", "7"),
        *("--trigger-interval", "500ms", "--buckets", "4", "--forget-after", "12h"),
        *("--no-episodes", "--episode-quiet", "9", "--diffs", "all"),
        *("--master", "local[1]", "--on-data-loss", "restart", "--metrics-host", "::1", "--metrics-port", "9"),
        *("--bootstrap-servers", "k:1", "--verbose"),
    )
    assert command("stream", *words)[0] == 0
    ((settings, options, _, _),) = started_jobs
    assert settings.kafka.bootstrap_servers == "k:1"
    assert settings.stream == StreamSettings(episodes=False, episode_quiet_ms=9000, diffs="all")
    assert options == StreamOptions(
        checkpoint="s3://bucket/c",
        available_now=True,
        max_offsets_per_trigger=7,
        trigger_interval_ms=500,
        buckets=4,
        forget_after_ms=12 * 3600 * 1000,
        session=SessionOptions(master="local[1]", log_file=None, verbose=True),
        metrics_host="::1",
        metrics_port=9,
        on_data_loss="restart",
    )


@pytest.mark.parametrize(("is_recommended", "level"), [(True, "INFO"), (False, "WARNING")])
def test_first_line_names_the_assignment_code(
    command: Command,
    started_jobs: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_recommended: bool,
    level: str,
) -> None:
    monkeypatch.setattr(doctor, "assignment_code", lambda: AssignmentCode("by lot", is_recommended))
    status, _, errors = command("stream", "--checkpoint", "c")
    assert (status, len(started_jobs)) == (0, 1)
    first = errors.splitlines()[0]
    assert (level in first, first.endswith("streaming.cli.stream: assignments: by lot")) == (True, True)


def test_stream_needs_a_checkpoint(command: Command, started_jobs: list[tuple[Any, ...]]) -> None:
    error = "error: --checkpoint DIR is required: the folder of the job's offsets and state\n"
    assert command("stream") == (2, "", error)
    assert started_jobs == []


def inspected_group(bucket: int, group: str) -> InspectedGroup:
    log, tracked = Log(group), Bucket().get(group)
    state, _ = play([log.topics(t=3), log.join("c1"), log.join("c2")])
    tracked.state = state
    return InspectedGroup(bucket, group, 345, tracked)


@pytest.fixture
def inspect_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def inspect(checkpoint: str, group: str | None) -> list[InspectedGroup]:
        calls.append((checkpoint, group))
        groups = inspected_group(3, "g"), inspected_group(12, "h")
        return [inspected for inspected in groups if group in (None, inspected.group_id)]

    monkeypatch.setattr(state, "inspect_groups", inspect)
    return calls


def test_inspect_state_prints_a_table_or_json(command: Command, inspect_calls: list[tuple[Any, ...]]) -> None:
    status, out, _ = command("stream", "inspect-state", "--checkpoint", "c", "--json")
    assert (status, [json.loads(line)["groupId"] for line in out.splitlines()]) == (0, ["g", "h"])
    assert out.splitlines()[0] == inspected_group(3, "g").as_json().decode()
    _, out, _ = command("stream", "inspect-state", "--checkpoint", "c", "--group", "h")
    assert [line.split() for line in out.splitlines()] == [
        ["group", "bucket", "protocol", "assignor", "generation", "members", "bytes"],
        ["h", "12", "classic", "range", "2", "2", "345"],
    ]
    assert inspect_calls == [(str(Path("c").absolute()), None), (str(Path("c").absolute()), "h")]


def test_group_missing_in_the_checkpoint_is_reported(command: Command, inspect_calls: list[tuple[Any, ...]]) -> None:
    answer = command("stream", "inspect-state", "--checkpoint", "c", "--group", "no")
    assert answer == (2, "", "error: --group 'no': not in the checkpoint\n")


def test_checkpoint_is_resized_as_requested(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []
    done = resize.ResizeResult(resize.Layout(16, None), resize.Layout(64, 4), 3, {"before": 9000, "after": 2000}, None)

    def fake_resize(*arguments: Any, dry_run: bool) -> resize.ResizeResult:
        calls.append((*arguments, dry_run))
        return done

    monkeypatch.setattr(resize, "resize", fake_resize)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "real")
    words = ("stream", "resize", "--checkpoint", ".")
    assert command(*words) == (0, "".join(f"{line}\n" for line in done.lines()), "")
    words = ("stream", "resize", "--checkpoint", str(tmp_path / "link"))
    status, out, _ = command(*words, "--buckets", "64", "--shuffle-partitions", "4", "--dry-run", "--json")
    assert (status, json.loads(out)) == (0, msgspec.to_builtins(done))
    real_folder = str(tmp_path / "real")  # the command moves the real folder, not a link to it or the working directory
    assert calls == [(real_folder, None, None, False), (real_folder, 64, 4, True)]


@pytest.mark.parametrize(("words", "every"), [((), False), (("--verbose",), True), (("--log-format", "json"), True)])
def test_verbose_log_has_a_line_for_each_batch(
    command: Command, started_jobs: list[tuple[Any, ...]], words: tuple[str, ...], every: bool
) -> None:
    assert command("stream", "--checkpoint", "c", *words)[0] == 0
    assert (started_jobs[0][3] is progress.log_batch) is every


def test_archive_is_written_and_reported(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "monitor.tar.gz"
    monkeypatch.setattr(archives, "write_python", lambda output: output.write_bytes(bytes(2_400_000)) and 7)
    monkeypatch.setattr(archives, "python", lambda: "python3.99")
    message = f"{file}: 7 files, 2 MB, for executors with python3.99 on this platform\n"
    assert command("stream", "archive", "--output", str(file)) == (0, message, "")


@pytest.mark.parametrize("words", [("stream",), ("stream", "resize"), ("stream", "inspect-state"), ("run",)])
def test_empty_checkpoint_name_is_refused(command: Command, words: tuple[str, ...]) -> None:
    """An unset shell variable gives an empty name, which would make the working directory the checkpoint."""
    status, _, errors = command(*words, "--checkpoint", "")
    assert (status, errors) == (2, "error: Invalid value for '--checkpoint': is empty; name a folder or a URL\n")


@pytest.mark.parametrize(
    ("option", "most"),
    [("--buckets", 2**20), ("--shuffle-partitions", 100_000), ("--max-offsets-per-trigger", 2**63 - 1)],
)
def test_numbers_out_of_range_are_refused(
    command: Command, started_jobs: list[tuple[Any, ...]], option: str, most: int
) -> None:
    for number, bound in ((0, "greater than or equal to 1"), (most + 1, f"less than or equal to {most}")):
        status, _, errors = command("stream", "--checkpoint", "c", option, str(number))
        assert (status, errors) == (2, f"error: Invalid value for '{option}': Input should be {bound}\n")
    assert command("stream", "--checkpoint", "c", option, str(most))[0] == 0
    assert len(started_jobs) == 1


BATCH_REPORT = BatchReport(number=1, events=1200, diffs=3, lag=4500)


def test_batches_are_logged_without_a_terminal_if_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[BatchReport] = []
    monkeypatch.setattr(progress, "log_batch", logged.append)
    for every_batch in (False, True):
        with report_batches(prints_every_batch=every_batch) as report:
            report(BATCH_REPORT)
        assert logged == [BATCH_REPORT] * every_batch


@pytest.mark.usefixtures("terminal")
def test_terminal_status_has_totals_of_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    screen = console(stderr=True)
    status = screen.status("")
    monkeypatch.setattr(status, "update", lambda text: shown.append(text.plain))
    monkeypatch.setattr(Console, "status", lambda *_: status)
    with report_batches(prints_every_batch=False) as report:
        for done in (BATCH_REPORT, BatchReport(events=800, diffs=2, lag=0), BatchReport()):
            report(done)
    assert shown == ["1,200 events, 3 diffs, 4,500 behind", "2,000 events, 5 diffs", "2,000 events, 5 diffs"]
