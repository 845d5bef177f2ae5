import base64
import io
from typing import Any

import msgspec
import pytest

from assignors.errors import BadInput
from assignors.partitioner import partition_for_key
from streaming.cli.json_lines import answer_lines
from streaming.cli.partitioning import KeyFormat, parse_key, partition_chooser
from tests.unit.streaming.cli.conftest import Command


def answered(data: bytes, partitions: int = 10, *, keys: KeyFormat = "utf8") -> Any:
    lines: list[Any] = []
    chooser = partition_chooser("murmur2", partitions)
    status = answer_lines(io.BytesIO(data), lambda line: chooser(parse_key(line, keys)), lines.append, skip_blank=False)
    return status, [msgspec.json.encode(answer).decode() for answer in lines]


def of(*keys: str, partitions: int = 10) -> list[str]:
    return [str(partition_for_key(key.encode(), partitions)) for key in keys]


def test_partition_command_answers_keys_in_order() -> None:
    data = "\ufeffalice\r\n\nb\u00f6b\n\r\n\ufeffx\n日本".encode()
    assert answered(data) == (0, of("alice", "", "böb", "", "\ufeffx", "日本"))


def test_large_partition_count_is_accepted() -> None:
    largest_count = 2**31 - 1
    assert answered(b"21\nabc\n", largest_count) == (0, of("21", "abc", partitions=largest_count))


def test_base64_keys_are_decoded() -> None:
    keys = [b"alice", b"\xff\xfe\x00", b""]
    data = b"\n".join(base64.b64encode(key) for key in keys) + b"\n__-_\n"
    expected = [str(partition_for_key(key, 10)) for key in [*keys, b"\xff\xff\xbf"]]
    assert answered(data, keys="base64") == (0, expected)


def test_invalid_key_gets_an_error_on_its_line() -> None:
    error = '{"error":{"type":"InvalidKey","message":"key: is not valid utf8: '
    status, lines = answered(b"a\n\xff\nb\n")
    assert (status, lines[0], lines[2], lines[1].startswith(error)) == (2, *of("a", "b"), True)
    status, lines = answered(b"YQ==\n!\nYg==\n", keys="base64")
    assert (status, lines[0], lines[2]) == (2, *of("a", "b"))
    assert lines[1].startswith('{"error":{"type":"InvalidKey","message":"key: is not valid base64: ')


@pytest.mark.parametrize(
    ("partitioner", "options", "message"),
    [
        ("murmur2", {"partitions": 0}, "--partitions: 0; must be between 1 and 2147483647"),
        ("murmur2", {"partitions": 2**31}, "--partitions: 2147483648"),
        ("round-robin", {"start": 2**31}, "--start: 2147483648"),
        ("sticky", {"record_size": 0}, "--record-size: 0"),
        ("sticky", {"batch_size": 0}, "--batch-size: 0; must be between 1 and 2147483647"),
    ],
)
def test_invalid_input_is_refused(partitioner: Any, options: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        partition_chooser(partitioner, **{"partitions": 3, **options})


def test_partition_command_hashes_keys_like_java(command: Command) -> None:
    keys = ["21", "foobar", "a-little-bit-long-string", "a-little-bit-longer-string", "abc", ""]
    answer = command("partition", "--partitions", "1000", stdin="\n".join(keys) + "\n")
    assert answer == (0, "340\n166\n112\n819\n107\n681\n", "")


def test_round_robin_and_sticky_ignore_keys(command: Command) -> None:
    def partitions(*words: str, keys: int) -> list[str]:
        return command("partition", *words, stdin="k\n" * keys)[1].split()

    round_robin = ("--partitions", "3", "--partitioner", "round-robin")
    assert partitions(*round_robin, keys=5) == ["0", "1", "2", "0", "1"]
    assert partitions(*round_robin, "--start", "2", keys=2) == ["2", "0"]
    sticky = ("--partitions", "50", "--partitioner", "sticky", "--seed", "9")
    batches = partitions(*sticky, keys=400)
    assert [len(set(batches[at : at + 164])) for at in (0, 164)] == [1, 1]
    assert batches == partitions(*sticky, keys=400)
    batches = partitions(*sticky, "--batch-size", "400", "--record-size", "200", keys=4)
    assert [len(set(batches[at : at + 2])) for at in (0, 2)] == [1, 1]


def test_invalid_options_are_refused(command: Command) -> None:
    for arguments, message in (
        (("--partitions", "many"), "--partitions"),
        ((), "--partitions"),
        (("--partitions", "3", "--partitioner", "best"), "best"),
        (("--partitions", "3", "--keys", "hex"), "hex"),
    ):
        status, out, errors = command("partition", *arguments, stdin="a\n")
        assert (status, out, errors.count("\n")) == (2, "", 1)
        assert errors.startswith("error: ")
        assert message in errors
