"""Fuzzes files: the state and the other files of a checkpoint, the history, and settings."""

import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from unittest import mock

import msgspec

from assignors.errors import MonitorError
from streaming.monitor.bucket import expire, process
from streaming.monitor.bucket_state import MAGIC, VERSION, Bucket, LastHeartbeat
from streaming.monitor.state import GroupState
from streaming.process import escape_unprintable
from streaming.records import codec
from streaming.records.codec import Record
from streaming.serve.archive import Archive, PageQuery
from streaming.serve.board import Board
from streaming.serve.history import History, Retention
from streaming.serve.records import TopicRecord
from streaming.settings.config import as_toml, load
from streaming.spark import checkpoint, resize
from streaming.spark.checkpoint import last_batch
from streaming.spark.state import InspectedGroup
from tests.fuzz.case import Case, FuzzTarget
from tests.fuzz.shapes import of
from tests.fuzz.targets.topics import SINKS
from tests.support.feed import ASSIGNMENTS, DIFFS, records
from tests.support.histories import Group, Log
from tests.support.recorded import GROUP_SORTS
from tests.support.recorded import records as recorded


@cache
def _folder() -> Path:
    """Return a new temporary folder for the files of this process."""
    return Path(tempfile.mkdtemp())


def assert_one_line(error: MonitorError) -> None:
    """Assert that an error message is one printable, non-empty line."""
    assert len(escape_unprintable(str(error)).splitlines()) == 1, repr(str(error))


def _events(group_id: str) -> Iterator[Record]:
    """Yield events that change a group after its state was decoded."""
    log = Log(group_id)
    settings_error = (
        log.topics(t0=3, t=5),
        log.join("new", "t0", "t", session_timeout_ms=10_000),
        log.beat("new"),
        log.leave("c1"),
        log.observe(1_000, {"a": {"t": [0, 1]}, "b": {}}),
        log.delete(),
    )
    for offset, event in enumerate(settings_error):
        key, value, headers = codec.encode_event(event)
        yield Record.of(0, offset, key, value, headers)


def _check_blob(case: Case) -> None:
    """Assert that the bytes of a bucket are rejected, or decoded and then usable for events without dead letters."""
    data = (case[0] if case else None) or b""
    try:
        bucket = Bucket(data)
        names = list(bucket)
        for name in names:
            InspectedGroup(1, name, bucket.size(name), bucket.get(name)).as_json()
        bucket = Bucket(data)
        for name in names[:3]:
            # Decoded bytes may still be contradictory; this is not checked here.
            for write in process(bucket, _events(name), 10**12, SINKS):
                reason = dict(write.headers).get("dlt_exception")
                assert reason not in (b"CorruptState", b"ValidationError", b"DecodeError", b"UnicodeDecodeError")
        expire(bucket, 10**12 + 11_000, SINKS)
        again = Bucket(bucket.pack())
    except MonitorError:
        return
    assert list(again) == list(bucket)


def _blob_seeds() -> Iterator[Case]:
    for sort in GROUP_SORTS:
        bucket = Bucket()
        for record in recorded(sort, 120):
            process(bucket, [record], 1_000, SINKS)
        yield [bucket.pack()]
    yield [MAGIC + bytes([VERSION + 1]) + b"\x92\x80\x80"]


def _state(state: GroupState) -> Case:
    heartbeats = {"c1": LastHeartbeat(1, 2_000, 1_000)}
    groups = {"g": msgspec.Raw(msgspec.msgpack.encode((state, heartbeats, 0)))}
    return [MAGIC + bytes([VERSION]) + msgspec.msgpack.encode((groups, {"g": 2_000}))]


_METADATA = checkpoint.Metadata("cluster", "m", "id-1", 4, partitions=4)
#: The files of a checkpoint, in the order of a case's parts; the last part is the name of one more file.
_FILES = (
    *(checkpoint.METADATA_FILE, "metadata", "offsets/11", "offsets/12"),
    *("commits/11", "sources/0/0", "state/0/0/12.snapshot"),
)


def _checkpoint(case: Case) -> None:
    """Assert that any checkpoint folder is accepted, or rejected with a one-line message before Spark reads it."""
    folder = _folder() / "checkpoint"
    shutil.rmtree(folder, ignore_errors=True)
    *contents, name = (case + [None] * 8)[:8]
    for file, content in zip(_FILES, contents, strict=True):
        if content is not None:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
    if name and b"\0" not in name and b"/" not in name and name not in (b".", b"..") and len(name) < 200:
        for parent in ("offsets", "state/0", "state/0/0"):
            (folder / parent).mkdir(parents=True, exist_ok=True)
            file = folder / parent / os.fsdecode(name)
            if not file.is_dir():  # state/0/0
                file.write_bytes(b"")
    try:
        _create_checkpoint(folder)
        _check_resize(folder)
    except MonitorError as error:
        assert_one_line(error)
        return
    assert _create_checkpoint(folder) == _create_checkpoint(folder)


def _create_checkpoint(folder: Path) -> checkpoint.Metadata:
    with checkpoint.LocalCheckpoint(str(folder)) as place:
        return checkpoint.claim(str(folder), place, _METADATA, "stop")


def _check_resize(folder: Path) -> None:
    """Read a checkpoint as ``stream resize`` and ``doctor`` do before they start Spark."""
    resize.resize_advice(folder)
    done = resize.resize(str(folder), None, None, dry_run=False)
    assert done.before == done.after
    batch = last_batch(folder / "commits")
    if batch is None:
        return
    staging_folder = checkpoint.staging_folder(folder)
    shutil.rmtree(staging_folder, ignore_errors=True)
    for part in ("offsets", "sources"):
        (staging_folder / part).mkdir(parents=True)
    with suppress(OSError):  # files that Spark would create again; `resize` reports them
        resize._copy_state(folder, staging_folder, batch, resize.Layout(8, 9))
        assert resize.layout(staging_folder, _METADATA) == resize.Layout(4, 9)


def _checkpoint_seeds() -> Iterator[Case]:
    offsets = b'v1\n{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"m":{"0":4}}\n-'
    first: Case = [msgspec.json.encode(_METADATA), b'{"id":"1"}', offsets, offsets]
    whole = [*first, b'v1\n{"nextBatchWatermarkMs":0}', b'\0v1\n{"m":{"0":0}}', b"state", None]
    yield whole
    for name in (b"13", b"12.delta", b"13.delta", b"1.snapshot", "²".encode(), b"9" * 199, b"\xff"):
        yield [*whole[:-1], name]


@cache
def _real_history() -> tuple[Path, bytes]:
    """Return the path of a small, closed history file, and the bytes of the file."""
    path = _folder() / "real.sqlite"
    with closing(History(path, cluster_id="c", diffs_topic=DIFFS)) as history:
        for number, name in enumerate(("orders", "a/b", "é\n")):
            group = Group(name, {"t0": 6, "t1": 2}, number)
            history.append(records(group.diffs(4)))
            latest = codec.encode(group.latest())
            history.append([TopicRecord(ASSIGNMENTS, 0, number, name.encode(), latest, None)])
        history.reset_changed_topics({DIFFS: "id-1"})
    return path, path.read_bytes()


def _read_and_write_history(path: Path) -> None:
    """Open and use a history as ``serve`` does; every error must be one line."""
    try:
        with closing(History(path, cluster_id="c", diffs_topic=DIFFS)) as history:
            round_range = history.round_range
            history.positions(), history.topic_ids()
            board = Board(round_range, history.groups)
            board.snapshot()
            _read_history(Archive(history.path), board, list(history.groups))
            history.reset_changed_topics({DIFFS: "id-2"})
            board.publish(history.append(records(Group("orders", {"t0": 6}, 9).diffs(2), start=90)))
            history.trim(Retention(1, 1), 1)
            history.check()
    except MonitorError as error:
        assert_one_line(error)


def _read_history(archive: Archive, board: Board, names: list[str]) -> None:
    for with_diff in (True, False):
        archive.page(PageQuery(), with_diff=with_diff)
    for row in archive.rounds_after(board.round_range, max(0, board.round_range.last - 3), 10, 10**6) or []:
        board.round_frame(row)
    for name in names[:2]:
        archive.timeline(PageQuery(group=name))
        archive.assignment(name)
        archive.round(name, board.round_range.last)


def _history_bytes(case: Case) -> None:
    """Overwrite some bytes of the file: each part is an offset (four bytes) and the new bytes."""
    _, real_history = _real_history()
    data = bytearray(real_history)
    for part in case:
        place, new = int.from_bytes((part or b"")[:4]) % (len(data) + 1), (part or b"")[4:]
        data[place : place + len(new)] = new
    with _fresh_history() as path:
        path.write_bytes(data)
        _read_and_write_history(path)


@contextmanager
def _fresh_history() -> Iterator[Path]:
    folder = _folder() / "history"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    yield folder / "history.sqlite"


def _history_byte_seeds() -> Iterator[Case]:
    yield []
    size = len(_real_history()[1])
    for place in (0, 16, 18, 28, 40, 60, 68, 100, 4_096, 8_192, size - 8, size // 2):
        yield [place.to_bytes(4) + b"\xff\xff"]


#: SQL that replaces values in each table's rows; the parts of a case are the new values.
_STORED_VALUE_UPDATES = (
    ("UPDATE meta SET value = ? WHERE key = 'epoch'", "text"),
    ("UPDATE meta SET value = ? WHERE key = 'trimmed'", "text"),
    ("UPDATE meta SET value = ? WHERE key = 'cluster_id'", "text"),
    ("UPDATE groups SET summary = ? WHERE id = 1", "blob"),
    ("UPDATE groups SET assignment = ? WHERE id = 1", "blob"),
    ("UPDATE groups SET name = ? WHERE id = 1", "text"),
    ("UPDATE rounds SET summary = ? WHERE seq = 4", "blob"),
    ("UPDATE rounds SET body = ? WHERE seq = 4", "deflated"),
    ("UPDATE rounds SET body = ? WHERE seq = 12", "blob"),
    ("UPDATE positions SET next_offset = ?", "text"),
)


def _history_rows(case: Case) -> None:
    """Replace values in the rows of a history file, and open it."""
    _, real_history = _real_history()
    with _fresh_history() as path:
        path.write_bytes(real_history)
        with closing(sqlite3.connect(path)) as connection:
            for (statement, kind), part in zip(_STORED_VALUE_UPDATES, case, strict=False):
                if part is not None:
                    value = zlib.compress(part) if kind == "deflated" else part
                    as_text = part.decode(errors="replace").replace("\0", "0")
                    connection.execute(statement, (as_text if kind == "text" else value,))
            connection.commit()
        _read_and_write_history(path)


def _history_row_seeds() -> Iterator[Case]:
    path, _ = _real_history()
    with closing(sqlite3.connect(path)) as connection:
        summary, assignment = connection.execute("SELECT summary, assignment FROM groups WHERE id = 1").fetchone()
        row = connection.execute("SELECT summary, body FROM rounds WHERE seq = 4").fetchone()
    whole = [b"abcd1234", b"0", b"c", summary, assignment, b"orders", row[0], zlib.decompress(row[1]), row[1], b"9"]
    yield [None] * len(_STORED_VALUE_UPDATES)
    for at, value in enumerate(whole):
        yield [*[None] * at, value, *[None] * (len(_STORED_VALUE_UPDATES) - at - 1)]


#: Environment variables whose values are the parts of a case after the file.
_ENVIRONMENT_VARIABLES = (
    "REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS",
    "REBALANCE_MONITOR_COLLECT__INCLUDE_GROUPS",
    "REBALANCE_MONITOR_TOPICS",
)


def _settings(case: Case) -> None:
    """Load a settings file with environment variables; accepted settings must be equal after printing and reading."""
    config = _folder() / "settings.toml"
    toml, *variables = (case + [None] * 4)[:4]
    config.write_bytes(toml or b"")
    set_variables = {
        name: os.fsdecode(value)
        for name, value in zip(_ENVIRONMENT_VARIABLES, variables, strict=True)
        if value is not None and b"\0" not in value and len(value) < 100_000
    }
    with mock.patch.dict(os.environ, set_variables):
        try:
            settings = load(config)
        except MonitorError as error:
            assert_one_line(error)
            return
    shown = "\n".join(as_toml(settings))
    if "***" in shown:
        return  # a password is masked
    config.write_text(shown)
    assert "\n".join(as_toml(load(config))) == shown


def _settings_seeds() -> Iterator[Case]:
    file = (
        b'[kafka]\nbootstrap_servers = "k1:9092,[::1]:9093"\n\n[topics]\nprefix = "a."\npartitions = 8\n'
        b'replication_factor = -1\n\n[collect]\ngroup_id = "g"\ninclude_groups = ["a.*", "b"]\n'
        b'exclude_groups = ["x"]\ncoordinator_logs = ["/tmp/a.log"]\n'
    )
    sasl = (
        b'[kafka]\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "u"\n'
        b'sasl_password = "p"\nssl_ca_file = "/dev/null"\nssl_check_hostname = false\n'
    )
    tls_settings = b'[kafka]\nsecurity_protocol = "SSL"\nssl_check_hostname = false\n\n[topics]\npartitions = 6\n'
    for part in (file, sasl, tls_settings, b""):
        yield [part, None, None, None]
    yield [file, b"k:1", b'["a", "b"]', b'{"prefix": "z", "partitions": 2}']
    yield [None, b"k:1", b"a", b"{"]


_TOML = (b"\n[kafka]\n", b"\n[collect.x]\n", b"= 1\n", b"'''", b"[[a]]", b"= {a = 1}\n", b"\\uD800", b"1979-05-27")
TARGETS = (
    FuzzTarget("state", _check_blob, _blob_seeds, shape=of(GroupState).map(_state)),
    FuzzTarget("checkpoint", _checkpoint, _checkpoint_seeds, 8),
    FuzzTarget("history-file", _history_bytes, _history_byte_seeds),
    FuzzTarget("history-rows", _history_rows, _history_row_seeds, len(_STORED_VALUE_UPDATES)),
    FuzzTarget("settings", _settings, _settings_seeds, 4, words=_TOML),
)
