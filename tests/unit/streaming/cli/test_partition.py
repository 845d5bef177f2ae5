"""``partition`` as users run it."""

from __future__ import annotations

import base64

from assignors.partitioner import partition_for_key
from tests.unit.streaming.cli.conftest import Run


def test_keys_of_the_java_tests(run: Run) -> None:
    keys = ["21", "foobar", "a-little-bit-long-string", "a-little-bit-longer-string", "abc", ""]
    done = run("partition", "--partitions", "1000", stdin="\n".join(keys) + "\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["340", "166", "112", "819", "107", "681"]


def test_odd_lines(run: Run) -> None:
    """A byte-order mark, CRLF, an empty key, other scripts, no line feed at the end."""
    done = run("partition", "--partitions", "7", stdin="\ufeffa\r\n\r\né\n日本")
    expected = [str(partition_for_key(key.encode(), 7)) for key in ("a", "", "é", "日本")]
    assert (done.returncode, done.stdout.splitlines()) == (0, expected)


def test_no_keys(run: Run) -> None:
    done = run("partition", "--partitions", "7", stdin="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_base64_and_invalid_base64_keys(run: Run) -> None:
    key = b"\x00\xff\xfe"
    data = f"{base64.b64encode(key).decode()}\n*\n\n"
    done = run("partition", "--partitions", "9", "--keys", "base64", stdin=data)
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        str(partition_for_key(key, 9)),
        '{"error":{"type":"InvalidKey","message":"key: not base64: Only base64 data is allowed"}}',
        str(partition_for_key(b"", 9)),
    ]


def test_round_robin_and_sticky(run: Run) -> None:
    done = run("partition", "--partitions", "3", "--partitioner", "round-robin", stdin="k\n" * 5)
    assert done.stdout.split() == ["0", "1", "2", "0", "1"]
    done = run("partition", "--partitions", "3", "--partitioner", "round-robin", "--start", "2", stdin="k\n" * 2)
    assert done.stdout.split() == ["2", "0"]
    sticky = ("partition", "--partitions", "50", "--partitioner", "sticky", "--seed", "9")
    done = run(*sticky, stdin="k\n" * 400)
    assert [len(set(done.stdout.split()[at : at + 164])) for at in (0, 164)] == [1, 1]
    assert done.stdout == run(*sticky, stdin="k\n" * 400).stdout
    done = run(*sticky, "--batch-size", "400", "--record-size", "200", stdin="k\n" * 4)
    assert [len(set(done.stdout.split()[at : at + 2])) for at in (0, 2)] == [1, 1]


def test_bad_usage(run: Run) -> None:
    for arguments, message in (
        (("--partitions", "0"), "--partitions: 0; must be between 1 and 2147483647"),
        (("--partitions", "many"), "--partitions"),
        ((), "--partitions"),
        (("--partitions", "3", "--partitioner", "best"), "best"),
        (("--partitions", "3", "--keys", "hex"), "hex"),
    ):
        done = run("partition", *arguments, stdin="a\n")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_million_keys_through_a_pipe(run: Run) -> None:
    done = run("partition", "--partitions", "12", stdin="".join(f"key-{n}\n" for n in range(1_000_000)))
    found = done.stdout.splitlines()
    assert (done.returncode, len(found)) == (0, 1_000_000)
    assert found[::99_999] == [str(partition_for_key(b"key-%d" % n, 12)) for n in range(0, 1_000_000, 99_999)]
