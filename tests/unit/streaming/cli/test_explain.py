"""The command ``explain`` reads log files: the stories that it prints, and its exit statuses."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

LOG = Path(__file__).parents[3] / "golden/explain/logs/broker-crash.log"


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "streaming", "explain", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_json_has_rounds_and_their_episode() -> None:
    types = [json.loads(line)["type"] for line in run(LOG, "--json").stdout.splitlines()]
    assert types == ["round", "episode", "round", "episode"]


def test_gzipped_standard_input_gives_the_same_answer() -> None:
    assert run("-", "--json", stdin=gzip.compress(LOG.read_bytes())).stdout == run(LOG, "--json").stdout


def test_utf_16_log_gives_the_same_answer() -> None:
    """A log in UTF-16, as PowerShell's redirection writes it, is explained like the same log in UTF-8."""
    assert run("-", "--json", stdin=LOG.read_text().encode("utf-16")).stdout == run(LOG, "--json").stdout


def test_lines_without_a_group_are_reported() -> None:
    line = "%4|1.1|MAXPOLL|app#consumer-1| Application maximum poll interval (5ms) exceeded by 8ms: leaving group"
    done = run("-", stdin=line.encode())
    assert (done.returncode, b"their log does not name the group" in done.stdout) == (0, True)


def test_explain_with_from_omits_earlier_rounds() -> None:
    lines = run(LOG, "--json", "--from", "2024-05-01T10:05:00Z").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["member.fenced", "crash"]


def test_group_option_excludes_other_groups() -> None:
    assert run(LOG, "--json", "--group", "other").stdout == b""


def test_html_is_one_file_without_external_resources(tmp_path: Path) -> None:
    done = run(LOG, "--html", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert (done.returncode, "Crash of pay-2" in text) == (0, True)
    assert not any(word in text for word in ("<script", "src=", "href=", "url("))


def test_names_are_escaped_in_html(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(LOG.read_text().replace("orders", "<script>x"))
    run(log, "--html", tmp_path / "report.html")
    assert "<script" not in (tmp_path / "report.html").read_text()


def test_log_without_recognised_lines_exits_with_1() -> None:
    done = run("-", stdin=b"hello\nThe group will join the rebalance\n")
    assert done.returncode == 1
    assert b"none of 2 lines" in done.stderr
    assert b"The group will join" in done.stderr


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_unreadable_file_exits_with_2(name: str, tmp_path: Path) -> None:
    done = run(tmp_path / name)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


def test_damaged_gzip_file_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(LOG.read_bytes())[:-20])
    assert run(tmp_path / "x.gz").returncode == 2


def test_explain_imports_no_client_and_no_spark() -> None:
    program = (
        "import sys, streaming.cli.explain;"
        "import streaming.explain.story, streaming.explain.reader;"
        "print(sorted({'pyspark', 'confluent_kafka', 'kafka', 'pandas', 'starlette'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
