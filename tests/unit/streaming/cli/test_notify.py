"""The command ``notify test`` sends a test incident to each receiver."""

from pathlib import Path

from tests.support.command import run
from tests.support.receiver import Response, receiver


def settings(path: Path, url: str) -> str:
    file = path / "monitor.toml"
    file.write_text(f'[[notify]]\nname = "ops"\ntype = "webhook"\nurl = "{url}"\nallow_private = true\n')
    return str(file)


def test_notify_test_opens_and_closes_an_incident(tmp_path: Path) -> None:
    with receiver() as received:
        done = run("notify", "test", "--config", settings(tmp_path, received.url))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ops: delivered\n", "")
    assert [body["data"]["action"] for body in received.accepted] == ["open", "close"]


def test_rejected_notification_is_one_line(tmp_path: Path) -> None:
    with receiver(Response(404)) as received:
        done = run("notify", "test", "--config", settings(tmp_path, received.url))
    assert (done.returncode, done.stderr) == (3, "error: notify test: ops: status 404\n")


def test_unknown_and_missing_targets_are_named(tmp_path: Path) -> None:
    unknown = run("notify", "test", "--target", "dev", "--config", settings(tmp_path, "https://example.com"))
    assert (unknown.returncode, unknown.stderr) == (
        *(2, "error: --target dev: no [[notify]] has this name; known names: ops\n"),
    )
    missing = run("notify")
    assert (missing.returncode, missing.stderr) == (
        *(2, "error: no notify target in the settings; add a [[notify]] table to the file of --config\n"),
    )
