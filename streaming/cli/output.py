"""Output of commands: JSON Lines or tables on standard output, and progress on standard error."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, TypeVar

import msgspec

from assignors.errors import BadInput, OutsideFailure
from streaming.process import warn

if TYPE_CHECKING:
    from streaming.settings.config import Settings

T = TypeVar("T")
TableShape = Literal["assignment", "comparison", "placement", "check"]


def standard_output() -> BinaryIO:
    """Return standard output as bytes."""
    if sys.stdout is None:
        raise OutsideFailure("Standard output is closed; give it a file or a pipe.")
    return sys.stdout.buffer


def writer(shape: TableShape, *, as_json: bool, as_table: bool) -> Callable[[Any], None]:
    """Return a function that writes results: as tables in a terminal or if ``as_table``, else as JSON Lines."""
    standard_output()
    if as_json or not (as_table or sys.stdout.isatty()):
        return json_lines()
    from streaming.cli import tables  # loading rich takes longer than most answers take

    return tables.table_writer(getattr(tables, f"{shape}_table"))


@contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Raise BadInput for a file that can't be read or written; ``name``: the option and the file."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{name}: {error.strerror if isinstance(error, OSError) else error}") from error


def json_lines() -> Callable[[Any], None]:
    """Return a function that writes one JSON value per line to standard output."""
    encode = msgspec.json.Encoder().encode
    out = standard_output()

    def write(value: Any) -> None:
        out.write(encode(value) + b"\n")
        out.flush()

    return write


def answer(values: Iterable[Any], lines: Iterable[Any], *, as_json: bool) -> None:
    """Write the values as JSON Lines for programs, or print ``lines`` (texts and tables) for people."""
    if as_json:
        write = json_lines()
        for value in values:
            write(value)
        return
    from streaming.process.terminal import show

    show(lines)


class Progress:
    """Progress display that counts steps; shown on standard error after two seconds of work, in a terminal only."""

    def __init__(self, what: str) -> None:
        self._unit = what
        self._read_count = 0
        self._is_shown = False
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._next = time.monotonic() + 2

    def step(self, count: int = 1) -> None:
        """Add ``count`` to the displayed number of items that were read."""
        self._read_count += count
        if self._is_terminal and time.monotonic() >= self._next:
            self._is_shown = True
            self._next = time.monotonic() + 0.5
            _write_progress(f"\r{self._read_count:,} {self._unit}")

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and count each item in the progress display."""
        for item in items:
            self.step()
            yield item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            _write_progress("\r\x1b[K")


def _write_progress(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def read_records(read: Callable[..., T], settings: "Settings", group_id: str | None = None) -> T:
    """Read topics for all groups or one group, with progress; records that do not parse are reported and left out."""
    with Progress("records read") as progress:
        return read(settings, group=group_id, on_malformed=warn_skipped, on_step=progress.step)


def warn_skipped(problem: Exception) -> None:
    """Warn that a record was skipped, because it does not parse."""
    warn(f"skipped: {problem}")
