import os
import subprocess
import sys
from pathlib import Path

import pytest

from assignors import __version__
from streaming.cli.main import COMMANDS
from tests.support.command import command as command_line
from tests.support.command import run
from tests.unit.streaming.cli.conftest import Command


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "--help"]])
def test_version_is_printed(arguments: list[str]) -> None:
    answer = run(*arguments)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"rebalance-monitor {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "error: No such command 'frobnicate'.\n"),
        (["assign", "groups.jsonl"], ("error: Got unexpected extra argument(s) (groups.jsonl)\n")),
        (["dlt", "frobnicate"], "error: No such command 'frobnicate'.\n"),
        (["watch", "--frobnicate"], "error: No such option: --frobnicate\n"),
        (["watch", "--config", "missing.toml"], "error: --config missing.toml: No such file or directory\n"),
    ],
)
def test_usage_error_is_one_line_and_status_2(arguments: list[str], message: str) -> None:
    answer = run(*arguments)
    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", message)


@pytest.mark.parametrize("name", ["demo", "run", "collect", "stream", "serve", "watch", "replay"])
def test_long_running_commands_have_the_common_options(command: Command, name: str) -> None:
    _, text, _ = command(name, "--help")
    options = ("--bootstrap-servers", "--config", "--topic-prefix", "--log-format")
    assert [option for option in options if option not in text] == []


@pytest.mark.parametrize("arguments", [["simulate", "crash", "--json"], ["simulate", "--list"], ["--help"]])
def test_closed_pipe_is_not_an_error(arguments: list[str]) -> None:
    child = subprocess.Popen(command_line(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    _, errors = child.communicate(timeout=120)
    assert (child.returncode, errors) == (0, b"")


def test_entry_module_imports_nothing_slow() -> None:
    """Ctrl-C before ``main`` is imported prints a traceback, so slow modules must be imported later."""
    code = "import sys, streaming.cli.main; print(sorted({'typer', 'rich', 'subprocess'} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_help_groups_the_commands_in_six_panels() -> None:
    lines = run("--help").stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("╭")] == [
        *("Options", "Run", "Ask", "Plan", "Operate", "Offline")
    ]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_help_fits_80_columns(command: Command, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, text, errors = command(name, "--help")
    assert (status, errors) == (0, "")
    assert f"\n    rebalance-monitor {name}" in text or f"| rebalance-monitor {name}" in text
    assert "…" not in text.replace("ID[:RACK],…", "")
    has_subcommands = "\nCommands:" in text
    assert ("COMMAND" in text.splitlines()[0]) == has_subcommands


def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['rebalance-monitor', '--help']\nfrom streaming.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'pyspark', 'pandas', 'numpy', 'pyarrow', 'confluent_kafka', 'kafka', 'pydantic', 'starlette'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stderr == "[]\n"


def run_with_failing_command(error: str, *, arguments: str = "['topics']") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process in which ``describe_topics`` raises this error."""
    code = (
        f"import sys, sqlite3, errno\nsys.argv = ['rebalance-monitor', *{arguments}]\n"
        "import streaming.kafka.topics as topics\n"
        f"def fail(*_): raise {error}\ntopics.describe_topics = fail\n"
        "from streaming.cli.main import main\nmain()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        ("OSError(28, 'No space left on device')", 3, "No space left on device"),
        ("PermissionError(13, 'Permission denied', 'a\\x1b')", 3, "a\\x1b: Permission denied"),
        ("OSError('cannot do\\nthat')", 3, "cannot do\\nthat"),
        ("TimeoutError()", 3, "TimeoutError"),
        ("MemoryError()", 3, "there is not enough memory for this; ask for less, or give the process more"),
        ("sqlite3.OperationalError('disk I/O error')", 3, "the history: disk I/O error"),
        (
            "UnicodeEncodeError('utf-8', '\\udcff', 0, 1, 'surrogates not allowed')",
            2,
            (
                "text that is not UTF-8: 'utf-8' codec can't encode character '\\udcff' in position 0: "
                "surrogates not allowed"
            ),
        ),
        (
            "ValueError('a\\nerror: b')",
            3,
            "unexpected ValueError: a\\nerror: b; please report it, with what --verbose adds",
        ),
    ],
)
def test_external_failure_is_one_line(error: str, status: int, message: str) -> None:
    answer = run_with_failing_command(error)
    assert (answer.returncode, answer.stdout, answer.stderr) == (status, "", f"error: {message}\n")


def test_control_characters_in_tracebacks_are_escaped() -> None:
    answer = run_with_failing_command("ValueError('a\\x1b]0;x\\x07')", arguments="['topics', '--verbose']")
    assert answer.stderr.startswith("Traceback (most recent call last):\n")
    assert answer.stderr.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "arguments", [["--help"], ["simulate", "--list"], ["simulate", "crash"], ["config", "show"], ["--version"]]
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_full_disk_under_the_output_is_reported_once(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(command_line(*arguments), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (3, "error: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["simulate crash", "simulate nothing", "config show", "assign"])
def test_closed_standard_streams_are_reported(command: str, closed: str) -> None:
    answer = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m streaming {command} {closed}"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert answer.returncode in (0, 2, 3)
    if closed == ">&-":
        assert (answer.returncode, answer.stderr.count("Standard output is closed")) == (3, 1)
    assert "unexpected" not in answer.stderr
    assert "Traceback" not in answer.stderr


def test_output_works_in_an_ascii_locale() -> None:
    answer = subprocess.run(
        command_line("simulate", "crash"),
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")


NUMBER_OPTIONS = {
    "assign": ["--max-line-bytes"],
    "check": ["--max-line-bytes"],
    "partition --partitions 3": ["--partitions", "--start", "--max-line-bytes"],
    "partition --partitions 3 --partitioner sticky": ["--batch-size", "--record-size", "--seed"],
    "partition --partitions 3 --partitioner round-robin": ["--start"],
    "place --brokers 1 --partitions 1 --replication-factor 1": [
        *("--partitions", "--replication-factor", "--start-index", "--shift", "--start-partition", "--seed")
    ],
    "simulate crash --json": ["--members", "--partitions", "--view-lag-ms", "--seed", "--rows"],
    "simulate crash": ["--rows"],
}


@pytest.mark.parametrize("value", [str(10**30), str(-(10**30)), "9" * 5000, "nan"])
@pytest.mark.parametrize("words", NUMBER_OPTIONS)
def test_huge_numbers_in_options_are_refused(command: Command, words: str, value: str) -> None:
    for option in NUMBER_OPTIONS[words]:
        status, _, errors = command(*words.split(), f"{option}={value}", stdin="a\n")
        assert (status in (0, 2), "unexpected" in errors, errors.count("\n") < 2) == (True, False, True), errors
