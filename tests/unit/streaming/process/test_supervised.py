import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assignors.errors import OutsideFailure
from streaming.process.children import SupervisedProcess
from tests.support.processes import alive
from tests.support.wait import eventually

SLEEP_COMMAND = ["sleep", "100"]


def test_stopped_process_has_the_status_of_the_signal(tmp_path: Path) -> None:
    process = SupervisedProcess(SLEEP_COMMAND, tmp_path / "log")
    assert process.poll() is None
    process.stop()
    assert process.poll() == 128 + signal.SIGTERM
    assert not alive(process.pid)


def open_files() -> set[str]:
    """Return the targets of this process's file descriptors: paths of files, and pipes with their inode."""
    open_links = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # another thread has closed it
            open_links.add(str(descriptor.readlink()))
    return open_links


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads Linux's table of open files")
@pytest.mark.parametrize("end", [SupervisedProcess.stop, SupervisedProcess.kill])
def test_an_ended_process_leaves_no_file_open(tmp_path: Path, end: Callable[[SupervisedProcess], None]) -> None:
    log = tmp_path / "log"
    process = SupervisedProcess(SLEEP_COMMAND, log)
    pipes = (process._supervisor.stdin, process._supervisor.stdout)
    opened = {str(log), *(str(Path(f"/proc/self/fd/{pipe.fileno()}").readlink()) for pipe in pipes if pipe is not None)}
    assert len(opened) == 3
    end(process)
    assert open_files() & opened == set()


@pytest.mark.parametrize(
    ("shell_trap", "stop_timeout", "status"),
    [
        pytest.param("", 0.2, 128 + signal.SIGKILL, id="one that will not stop is killed"),
        pytest.param("sleep 0.5; exit 7", 60, 7, id="one that takes its time is left to it"),
    ],
)
def test_stopped_process_ends_by_signal_or_is_killed(
    tmp_path: Path, shell_trap: str, stop_timeout: float, status: int
) -> None:
    command = ["sh", "-c", f"trap '{shell_trap}' TERM; echo ready; while true; do sleep 0.1; done"]
    process = SupervisedProcess(command, tmp_path / "log")
    eventually(lambda: "ready" in (tmp_path / "log").read_text())
    process.stop(timeout=stop_timeout)
    assert process.poll() == status


def test_process_output_and_exit_status_are_captured(tmp_path: Path) -> None:
    process = SupervisedProcess(["sh", "-c", "echo out; echo err >&2; exit 7"], tmp_path / "log")
    assert process.wait(10) == 7
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]
    process.stop()


def test_missing_command_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OutsideFailure, match="no-such-command does not start"):
        SupervisedProcess(["no-such-command"], tmp_path / "log")


PARENT_PROGRAM = """
import sys, signal, threading, time, os
from pathlib import Path
from streaming.process.children import SupervisedProcess
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell inherits that it is ignored
started = []
thread = threading.Thread(target=lambda: started.append(SupervisedProcess(["sleep", "100"], Path(sys.argv[1]))))
thread.start(); thread.join()  # the thread that started it is gone, the process is not
if os.fork() == 0:  # holds the pipe open, as multiprocessing's children do
    time.sleep(100)
print(started[0].pid, flush=True)
while True:  # Python takes no notice of a signal that comes just before it goes to sleep
    time.sleep(0.1)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_process_ends_with_its_parent_in_every_case(tmp_path: Path, end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT_PROGRAM, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert alive(pid)
            parent.send_signal(end)
            eventually(lambda: not alive(pid))
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_process_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux kills a child with its parent")
    process = SupervisedProcess(SLEEP_COMMAND, tmp_path / "log")
    os.kill(process._supervisor.pid, signal.SIGKILL)
    eventually(lambda: not alive(process.pid))
    process.kill()
