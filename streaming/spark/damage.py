"""What is wrong with a checkpoint's files, and what to do: before Spark starts, and from what Spark says of them.

Spark keeps a file a batch in ``offsets`` and in ``commits`` and, a task, what each batch changed of the state,
with the whole state now and then (:mod:`streaming.spark.state_store`). Of these only the newest matter for a start.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from assignors.errors import OutsideFailure
from streaming.spark import state_store
from streaming.wire.codec import UNREADABLE

#: A file below a folder, as it stands in what Spark says: perhaps in quotes or before punctuation.
_FILE = r"(?:/[\w.=-]+)+"
#: How the description of the state's columns begins: a version as Java's ``writeUTF`` has it.
_COLUMNS = re.compile(rb"\x00\x02v\d")
#: What the operating system may say of a disk that can't be written; in the JVM's words it is the same.
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
#: A file elsewhere: RocksDB's own, where executors have room for their work.
_FULL = re.compile(r"RocksDBException: [^/\n]*(/[^:\n]+): No space left on device")
_DENIED = ("Permission denied", "AccessControlException", "AccessDeniedException")
_DAMAGED = re.compile(
    r"CANNOT_LOAD_STATE_STORE|STATE_STORE|FileNotFoundException|EOFException|Stream is corrupted|StreamCorrupted|"
    r"JsonParseException|MismatchedInputException|MappingException|[Ll]og file|UTFDataFormatException|"
    r"UNSUPPORTED_LOG_VERSION|Invalid.*version|NumberFormatException|ChecksumException"
)

#: The two ways out when a file is lost or damaged.
RESTORE = (
    "Restore the folder from a copy; or move it away and start again: the whole membership topic is then read, and "
    "the same diffs come out, with the same ids"
)


class CheckpointDamaged(OutsideFailure):
    """Files of the checkpoint are missing, or are not as Spark left them."""


class CheckpointUnusable(OutsideFailure):
    """The checkpoint's folder can't be read or written: a full disk, or files of another user."""


def damaged(checkpoint: str, what: str) -> CheckpointDamaged:
    """The error that says what is damaged, and the two ways out."""
    return CheckpointDamaged(f"--checkpoint {checkpoint}: {what}. {RESTORE}")


def refused(checkpoint: str, file: str, number: int) -> CheckpointUnusable:
    """The error behind an ``errno`` of the operating system."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        advice = "make room on its disk and start again; nothing is lost"
    elif number in (errno.EACCES, errno.EPERM):
        advice = "give the folder, with all that is in it, to the user who runs this"
    else:
        advice = "put that right and start again"
    return CheckpointUnusable(f"--checkpoint {checkpoint}: {file}: {os.strerror(number)}; {advice}")


def unusable(checkpoint: str, error: OSError) -> CheckpointUnusable:
    """The same behind an error that Python has raised."""
    return refused(checkpoint, str(error.filename or checkpoint), error.errno or 0)


def look(checkpoint: str) -> None:
    """Look at the files that a start needs. A checkpoint behind a URL is taken as it is.

    Raises:
        CheckpointDamaged: the message names the first file that is missing or not as Spark left it.
        CheckpointUnusable: one may not be read.
    """
    if "://" in checkpoint:
        return
    try:
        for what in _problems(Path(checkpoint)):
            raise damaged(checkpoint, what)
    except OSError as error:
        raise unusable(checkpoint, error) from error


def last(folder: Path) -> int | None:
    """The newest batch in ``offsets`` or ``commits``; None when there is none."""
    return max(state_store.numbers(folder), default=None)


def state_files(checkpoint: Path) -> Iterator[Path]:
    """The files of the state that a start reads, each task's in the order in which it reads them."""
    commits = state_store.numbers(checkpoint / "commits")
    yield from state_store.files(checkpoint, commits[-1] + 1 if commits else 0)


def _problems(folder: Path) -> Iterator[str]:
    offsets, commits = state_store.numbers(folder / "offsets"), state_store.numbers(folder / "commits")
    if not offsets and not commits:
        return
    metadata = folder / "metadata"
    if metadata.exists() and not _is_json(metadata.read_bytes()):
        yield f"{metadata} is damaged"
    begun = offsets[-1] if offsets else -1
    done = commits[-1] if commits else -1
    # A batch is noted in offsets before it runs and in commits when it is done: the one may be one ahead.
    if done not in (begun, begun - 1):
        lacking = "commits" if done < begun else "offsets"
        yield f"{folder / lacking} lacks files: batch {begun} was begun last, batch {done} was done last"
    if begun > 0 and begun - 1 not in offsets:
        yield f"{folder / 'offsets' / str(begun - 1)} is missing"
    for number in offsets[-2:]:
        yield from _log(folder / "offsets" / str(number), least=2)
    for number in commits[-1:]:
        yield from _log(folder / "commits" / str(number), least=1)
    for start in sorted((folder / "sources").glob("*/0")):
        yield from _log(start, least=1)
    yield from _descriptions(folder / "state" / "0")
    files = list(state_files(folder))
    if done >= 0 and not files:
        yield f"{folder / 'state' / '0'} holds no state"
    yield from _state(files)


def _state(files: Iterable[Path]) -> Iterator[str]:
    sizes: dict[Path, int] = {}
    for file in files:
        tables = state_store.tables(file)
        sizes |= tables or {}
        if not file.exists():
            yield f"{file} is missing"
        elif not file.stat().st_size:
            yield f"{file} is empty"
        elif tables is None or file.stat().st_size != sizes.get(file, file.stat().st_size):
            yield f"{file} is damaged"
        file.open("rb").close()  # may this user read it?


def _descriptions(state: Path) -> Iterator[str]:
    """What Spark notes of the operator and of the state's columns; it makes anew what is not there."""
    operator, columns = state / "_metadata" / "metadata", state / "0" / "_metadata" / "schema"
    if operator.exists():
        yield from _log(operator, least=1)
    if columns.exists() and not _COLUMNS.match(columns.read_bytes()):
        yield f"{columns} is damaged"


def _log(file: Path, least: int) -> Iterator[str]:
    """A version (in ``sources`` behind a zero byte) and at least so many lines of JSON; ``-`` stands for none."""
    version, *lines = file.read_bytes().lstrip(b"\0").splitlines() or [b""]
    whole = re.fullmatch(rb"v\d+", version) and len(lines) >= least
    if not whole or not all(line == b"-" or _is_json(line) for line in lines):
        yield f"{file} is damaged"


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(data), dict)
    except UNREADABLE:
        return False


def explain(
    text: str, checkpoint: str, location: str, unreadable: Callable[[], Path | None]
) -> OutsideFailure | None:
    """The error behind what Spark says, when that is about the checkpoint's files; None when it is not.

    Args:
        text: all that Spark says, causes included.
        checkpoint: the folder as it was given.
        location: the same as Spark names it.
        unreadable: finds the file of the state that is damaged, where Spark does not name it.
    """
    ours = re.escape(location) + _FILE
    # What a checksum is wrong of may stand behind others in the text.
    found = re.search(rf"(?<=Checksum error: file:){ours}", text) or re.search(ours, text)
    file = found[0] if found is not None else checkpoint
    if (full := _FULL.search(text)) is not None and not full[1].startswith(location):
        return refused(checkpoint, full[1], errno.ENOSPC)
    for number in _REFUSALS:
        if os.strerror(number) in text and (found is not None or number == errno.ENOSPC):
            return refused(checkpoint, file, number)
    if found is not None and any(sign in text for sign in _DENIED):
        return refused(checkpoint, file, errno.EACCES)
    if "STATE_STORE" in text or "STDS_FAILED" in text:
        name = unreadable() or (found[0] if found is not None else "a file of its state")
        return damaged(checkpoint, f"{name} is damaged")
    if found is not None and _DAMAGED.search(text):
        return damaged(checkpoint, f"{file} is damaged")
    return None
