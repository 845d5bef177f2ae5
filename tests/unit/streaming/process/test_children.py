import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assignors.errors import OutsideFailure
from streaming.process.children import Child, ChildDied, ChildProcesses, SupervisedProcess, make_private, open_private
from tests.support.processes import alive
from tests.support.wait import eventually

CHILD_PROGRAM = """
from streaming.process.children import end_with_parent
from streaming.process.service import stop_on_signals
end_with_parent()
stop = stop_on_signals()
print("ready", flush=True)
stop.wait(60)
print("drained", flush=True)
"""


def raise_on_restart(name: str) -> None:
    raise AssertionError(f"{name} is not started again")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "drains.py").write_text(CHILD_PROGRAM)
    (tmp_path / "fails.py").write_text("import sys; sys.exit('error: no such luck')")
    (tmp_path / "deaf.py").write_text(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\ntime.sleep(60)"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    return "drains"


def test_terminated_child_process_finishes_its_work(module: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ChildProcesses() as children:
        children.add(Child("part", [module], log=log))
        eventually(lambda: "ready" in log.read_text())
        children.check()
    assert log.read_text() == "ready\ndrained\n"


def test_a_child_that_ends_is_reported_with_its_last_line(module: str, tmp_path: Path) -> None:
    child = Child("part", ["fails"], log=tmp_path / "log")
    eventually(lambda: not child.is_running)
    with pytest.raises(ChildDied) as error:
        child.check()
    assert str(error.value) == f"part ended with status 1: no such luck (log: {tmp_path / 'log'})"


def test_a_child_ends_when_its_parent_is_killed(module: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "import pathlib, sys, time; from streaming.process.children import Child\n"
        f"Child('part', ['{module}'], log=pathlib.Path(sys.argv[1])); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(log)])
    eventually(lambda: log.exists() and "ready" in log.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    eventually(lambda: log.read_text() == "ready\ndrained\n")


def test_watch_ends_with_the_signal_and_raises_for_a_dead_child(module: str, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with ChildProcesses() as children:
        children.watch(stop, raise_on_restart)
    with ChildProcesses() as children, pytest.raises(ChildDied, match="no such luck"):
        children.add(Child("part", ["fails"], log=tmp_path / "log"))
        children.watch(threading.Event(), raise_on_restart)


@pytest.mark.usefixtures("module")
def test_a_child_that_does_not_drain_is_killed_with_its_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child("part", ["deaf"], log=log)
    eventually(lambda: "ready" in log.read_text())
    child.terminate()
    assert child.wait(0.2) == -signal.SIGKILL


def test_externally_ended_query_is_restarted(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.process.children.MIN_UPTIME_FOR_RESTART_SECONDS", 0.0)
    log, stop, names = tmp_path / "log", threading.Event(), []

    def before_restart(name: str) -> None:
        names.append(name)
        if len(names) == 2:
            raise ChildDied("another one is there")

    with ChildProcesses() as children:
        child = children.add(Child("part", [module], log=log))

        def kill_twice() -> None:
            for starts in (1, 2):
                eventually(lambda starts=starts: log.read_text().count("ready") == starts)
                os.kill(child._process.pid, signal.SIGKILL)

        kill_thread = threading.Thread(target=kill_twice)
        kill_thread.start()
        with pytest.raises(ChildDied, match="another one is there"):
            children.watch(stop, before_restart)
        kill_thread.join()
    assert names == ["part", "part"]


def test_child_that_ends_at_once_is_not_started_again(module: str, tmp_path: Path) -> None:
    with ChildProcesses() as children:
        child = children.add(Child("part", [module], log=tmp_path / "log"))
        child.kill()
        with pytest.raises(ChildDied, match="part ended with status -9"):
            children.watch(threading.Event(), raise_on_restart)


@pytest.fixture
def _permissive_umask() -> Iterator[None]:
    """Set the umask to 0, the most permissive value, during each test."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("_permissive_umask")
def test_new_and_existing_files_are_private(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("secret\n")
    for path in (old, new):
        with open_private(path, "a") as file:
            file.write("more")
    assert (mode(old), mode(new), old.read_text()) == (0o600, 0o600, "secret\nmore")


@pytest.mark.usefixtures("_permissive_umask")
def test_a_new_folder_is_private_and_an_old_one_is_unchanged(tmp_path: Path) -> None:
    make_private(tmp_path / "new")
    make_private(tmp_path / "above" / "deep")
    assert mode(tmp_path / "above" / "deep") == 0o700
    (tmp_path / "old").mkdir()
    make_private(tmp_path / "old")
    assert (mode(tmp_path / "new"), mode(tmp_path / "old")) == (0o700, 0o777)


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
