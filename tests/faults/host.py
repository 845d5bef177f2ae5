"""The simulated host of one component: its clock and the speed of its disk can be changed at run time (`host.c`)."""

import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SOURCE = Path(__file__).with_name("host.c")


def library(folder: Path) -> Path | None:
    """Compile the library from `host.c` into a folder; None if there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    built = folder / "host.so"
    options = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror")
    subprocess.run([compiler, *options, "-o", str(built), str(_SOURCE), "-ldl"], check=True)
    return built


class SimulatedHost:
    """The simulated host of a component: environment variables for the component, and functions that cause faults.

    Args:
        built: the path that :func:`library` returned.
        control: a new file from which the component reads the state of its host.
    """

    def __init__(self, built: Path, state_file: Path) -> None:
        self.environment = {"LD_PRELOAD": str(built), "FAULTY_HOST": str(state_file)}
        self._control_file = state_file
        self._control_file.write_bytes(bytes(16))

    def set_clock(self, seconds: int) -> None:
        """Shift the clock of the simulated host by this much."""
        self._write_number(0, seconds)

    @contextmanager
    def slow_disk(self, milliseconds: int) -> Iterator[None]:
        """Delay each write and each flush to a file by ``milliseconds`` until the end of the block."""
        self._write_number(8, milliseconds)
        try:
            yield
        finally:
            self._write_number(8, 0)

    def _write_number(self, place: int, number: int) -> None:
        with self._control_file.open("r+b", buffering=0) as file:  # it is memory-mapped, so it is never shortened
            file.seek(place)
            file.write(struct.pack("=q", number))
