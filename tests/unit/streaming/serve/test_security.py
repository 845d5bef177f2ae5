from __future__ import annotations

from pathlib import Path

import pytest

from streaming.serve.security import UnusableToken, is_loopback, read_token


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),  # noqa: S104 - the point of the case
        ("::", False),
        ("10.0.0.1", False),
        ("127.evil.example", False),
        ("", False),
        ("[::1].evil.com", False),
        ("::1%evil.com", False),
        ("[::1", False),
        ("LOCALHOST", True),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_token_is_one_line_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o600)
    assert read_token(path) == "0123456789abcdef"


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        ("0123456789abcdef", 0o644, "every user may read it; chmod 640"),
        ("short", 0o600, "no token of 16 or more characters"),
        ("", 0o600, "no token"),
        ("two words of some length", 0o600, "no token"),
    ],
)
def test_a_token_that_protects_little_is_refused(tmp_path: Path, content: str, mode: int, says: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(UnusableToken, match=says) as refused:
        read_token(path)
    assert not content or content not in str(refused.value)


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableToken, match="No such file"):
        read_token(tmp_path / "none")
