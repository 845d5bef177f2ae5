import subprocess
import sys

import pytest

from assignors import __version__
from streaming.cli.main import COMMANDS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streaming", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_version() -> None:
    answer = run("--version")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"rebalance-monitor {__version__}\n", "")


def test_help_lists_every_command() -> None:
    answer = run("--help")
    assert answer.returncode == 0
    assert all(name in answer.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "error: No such command 'frobnicate'.\n"),
        (
            ["assign", "groups.jsonl"],
            (
                "error: Unexpected argument 'groups.jsonl': `assign` takes options only; see rebalance-monitor "
                "assign --help\n"
            ),
        ),
        (["dlt", "frobnicate"], "error: No such command 'frobnicate'.\n"),
        (["watch", "--frobnicate"], "error: No such option: --frobnicate\n"),
        (
            ["watch", "--config", "missing.toml"],
            "error: --config missing.toml: No such file or directory\n",
        ),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments: list[str], message: str) -> None:
    answer = run(*arguments)
    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", message)


@pytest.mark.parametrize("command", ["demo", "run", "collect", "stream", "serve", "watch", "replay"])
def test_what_runs_long_takes_the_common_options(command: str) -> None:
    text = run(command, "--help").stdout
    assert all(name in text for name in ("--bootstrap-servers", "--config", "--topic-prefix", "--log-format"))


def test_an_error_that_nobody_foresaw_is_one_line_too() -> None:
    code = (
        "import sys\nsys.argv = ['rebalance-monitor', 'topics']\nimport streaming.kafka.topics as topics\n"
        "topics.describe_topics = lambda settings: 1 / 0\nfrom streaming.cli.main import main\nmain()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr == (
        "error: unexpected ZeroDivisionError: division by zero; please report it, with what --verbose adds\n"
    )


@pytest.mark.parametrize("arguments", [["simulate", "crash", "--json"], ["simulate", "--list"], ["--help"]])
def test_a_reader_that_is_gone_is_no_error(arguments: list[str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "streaming", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.close()
    _, errors = child.communicate(timeout=120)
    assert (child.returncode, errors) == (0, b"")


def test_the_entry_imports_nothing_slow() -> None:
    """An early Ctrl-C must find ``main`` already there, or it meets a traceback of half an import."""
    code = (
        "import sys, streaming.cli.main; print(sorted({'typer', 'rich', 'subprocess'} & sys.modules.keys()))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(command: str) -> None:
    answer = run(command, "--help")
    assert answer.returncode == 0
    assert "Example" in answer.stdout


def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['rebalance-monitor', '--help']\nfrom streaming.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'pyspark', 'pandas', 'numpy', 'pyarrow', 'confluent_kafka', 'kafka', 'pydantic', 'starlette'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stderr == "[]\n"
