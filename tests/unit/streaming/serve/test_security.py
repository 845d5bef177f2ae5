import pytest

from streaming.serve.security import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),  # noqa: S104 - the tested address
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
def test_loopback_addresses_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
