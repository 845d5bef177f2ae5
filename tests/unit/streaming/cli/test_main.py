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


@pytest.mark.parametrize("command", ["run", "collect", "stream", "serve", "watch", "replay"])
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
