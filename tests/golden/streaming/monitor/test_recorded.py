"""The stream gives the bytes that it gave: writes, timers and state over recorded logs of every sort.

The digests ``batches of …`` were recorded before members had names: for them exactly ``clientId``, ``clientHost``
and ``groupInstanceId`` are taken out, of each member of diffs, of latest assignments (where they are the map
``names``) and of the state (where two of them are the end of a member, and its version says so), and nothing else.
The limits of size hold for what is left. The digest ``with names`` is of every byte. In both latest assignments are
without ``racks``, which are newer than they.

The log is digested beside the answer, so that a changed generator is not taken for a changed monitor.
``WRITE_RECORDED=1`` writes the digests anew, at a release that stood; ``RECORDED_EVENTS=100000`` takes the whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock
from zlib import crc32

import msgspec
import pytest

from streaming.monitor import asking, rendering
from streaming.monitor.asking import native
from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import expire, process
from streaming.monitor.envelope import Sinks, Write
from streaming.monitor.state import GroupState, MemberState, Reports
from streaming.wire.codec import Record, encode
from tests.golden.streaming.monitor import recorded_kinds
from tests.support import recorded

pytestmark = pytest.mark.long

COUNT = int(os.environ.get("RECORDED_EVENTS", "1500"))
GOLDEN = Path(__file__).parent / "recorded.json"
#: Records a batch; each with two buckets more than the one before.
BATCHES = (13, 400, 20_000)
#: What rounds should have been is asked by :mod:`tests.unit.streaming.monitor.test_expected`, and not here.
SINKS = Sinks(
    *("m", "d", "a", "dlt", {"m": 4, "d": 5, "a": 3, "dlt": 2}, {"d": 5_000, "dlt": 1_500}, 300_000),
    expected_partitions=0,
)


def answers(log: list[Record], batch: int, buckets: int) -> Iterator[object]:
    """Every write in order, timers included, and the bytes of every group's state at the end."""
    blobs: dict[int, bytes] = {}
    for start in range(0, len(log), batch):
        now = start * 1_000
        parts: dict[int, list[Record]] = {}
        for record in log[start : start + batch]:
            parts.setdefault(crc32(record.key or b"") % buckets, []).append(record)
        for number in range(buckets):
            bucket = Bucket(blobs.get(number))
            writes: list[Write] = process(bucket, parts.get(number, []), now, SINKS)
            if bucket.changed:
                blobs[number] = bucket.pack()
            bucket = Bucket(blobs.get(number))
            writes += expire(bucket, now + 50_000, SINKS)
            if bucket.changed:
                blobs[number] = bucket.pack()
            yield from map(tuple, writes)
    for number in range(buckets):
        yield blobs.get(number)


def digest(items: Iterable[object]) -> str:
    """SHA-256 of the items' text. Dead letters name the types that are known: two are newer than they."""
    found = sha256()
    for item in items:
        found.update(repr(item).replace(" group.quiet,", "").replace(" partitions.stopped,", "").encode())
    return found.hexdigest()


def unracked(value: object) -> bytes:
    """The JSON of a record without where members run."""
    written = encode(value)
    if b'"racks":' not in written:
        return written
    record = json.loads(written)
    del record["racks"]
    return encode(record)


def unnamed(value: object) -> bytes:
    """The JSON of a diff or a latest assignment without what members are called."""
    record = json.loads(unracked(value))
    members = record.pop("names") if "names" in record else record["members"]
    for member in members.values():
        for name in ("clientId", "clientHost", "groupInstanceId"):
            del member[name]
    assert members is record["members"] or not any(members.values())
    return encode(record)


#: How many fields members had before.
NAMELESS = MemberState.__struct_fields__.index("client_id")


def _cut(state: list[Any], struct: type[GroupState | Reports]) -> None:
    place = struct.__struct_fields__.index("members")
    state[place] = [member[:NAMELESS] for member in state[place]]


def unnamed_state(item: object) -> object:
    """The state as it was before; anything else as it is."""
    if not isinstance(item, bytes):
        return item
    assert item.startswith(b"KRMB\x04")
    groups, due = msgspec.msgpack.decode(item[5:])
    for state, *_ in groups.values():
        _cut(state, GroupState)
        place = GroupState.__struct_fields__.index("reports")
        if len(state) > place:
            reports = state[place]
            _cut(reports, Reports)
            for said in reports[Reports.__struct_fields__.index("open")].values():
                said |= {name: member[:NAMELESS] for name, member in said.items()}
    return b"KRMB\x01" + msgspec.msgpack.encode([groups, due])


def untold_state(item: object) -> object:
    """The state as it was before episodes: without them only the version is another."""
    return b"KRMB\x02" + item[5:] if isinstance(item, bytes) else item


def digests(sort: str, count: int) -> dict[str, str]:
    """Of the log, and of what each batching makes of it."""
    several = recorded_kinds if sort in recorded_kinds.SORTS else recorded
    log = list(several.records(sort, count))
    found = {"log": digest(map(tuple, log))}
    for more, batch in enumerate(BATCHES):
        with mock.patch.object(rendering, "encode", unnamed):
            found[f"batches of {batch}"] = digest(map(unnamed_state, answers(log, batch, 1 + 2 * more)))
    with mock.patch.object(rendering, "encode", unracked):
        found["with names"] = digest(map(untold_state, answers(log, BATCHES[1], 3)))
    return found


def mode(name: str) -> AbstractContextManager[object]:
    """``python``: without native code, whether it is installed or not; ``native``: as installed."""
    return mock.patch.object(asking, "play", None) if name == "python" else nullcontext()


@pytest.mark.parametrize(
    ("sort", "name"),
    [
        *((sort, name) for sort in recorded.SORTS for name in ("python", "native")),
        *((sort, "python") for sort in recorded_kinds.SORTS),  # native code decides none of them
    ],
)
def test_recorded_logs_give_the_same_bytes(sort: str, name: str) -> None:
    if name == "native" and not native():
        pytest.skip("the native module is built where there is cargo")
    known = json.loads(GOLDEN.read_text())
    with mode(name):
        found = digests(sort, COUNT)
    if os.environ.get("WRITE_RECORDED") and name == "python":
        known.setdefault(str(COUNT), {})[sort] = found
        GOLDEN.write_text(json.dumps(known, indent=1) + "\n")
    assert found["log"] == known[str(COUNT)][sort]["log"], "the generator changed, not the monitor"
    assert found == known[str(COUNT)][sort]
