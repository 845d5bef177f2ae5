"""Forecasts in worker processes: limits of time, memory and number, and clients that disconnect."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message

from assignors.errors import BadInput
from streaming.serve.forecasts import WorkerPool
from streaming.serve.problems import Problem
from tests.support.asgi import settle


class UnpicklableError(BadInput):
    """A test error whose arguments pickle cannot restore."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def work(folder: str, seconds: float) -> bytes:
    (Path(folder) / "work.pid").write_text(str(os.getpid()))
    time.sleep(seconds)
    return b"1"


def raise_refusal() -> bytes:
    raise UnpicklableError("a", "b")


def exhaust_memory() -> bytes:
    return bytes(2**40)


def end() -> bytes:
    os._exit(1)


class Client:
    """A client that stays connected until the test disconnects it."""

    def __init__(self) -> None:
        self.leaving = asyncio.Event()

    async def receive(self) -> Message:
        await self.leaving.wait()
        return {"type": "http.disconnect"}

    @property
    def request(self) -> Request:
        return Request({"type": "http"}, self.receive)


async def problem(workers: WorkerPool, function: object, *arguments: object) -> tuple[str, str]:
    """Return kind and detail of the :class:`Problem` that ``workers.run`` raises for this function."""
    with pytest.raises(Problem) as refused:
        await workers.run(Client().request, function, *arguments)  # type: ignore[arg-type]
    return refused.value.kind, refused.value.detail


def test_failure_in_a_worker_is_reported() -> None:
    async def run() -> None:
        workers = WorkerPool()
        assert await problem(workers, raise_refusal) == ("forecast", "a and b")
        kind, detail = await problem(workers, exhaust_memory)
        assert (kind, "GiB of memory" in detail) == ("forecast", True)
        assert await problem(workers, end) == ("worker", "the process that computed it ended")

    asyncio.run(run())


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    kind, detail = asyncio.run(problem(WorkerPool(seconds=1), work, str(tmp_path), 3600))
    assert (kind, detail) == ("forecast", "takes more than 1 s, the limit here; the commands of these names have none")
    pid = tmp_path / "work.pid"
    if pid.exists():  # without this file, the process was killed before it began
        assert not Path(f"/proc/{pid.read_text()}").exists()


class Waiting(WorkerPool):
    """A pool of worker processes that never finish a computation; it counts the cancelled computations."""

    cancelled_count = 0

    async def _run_in_worker(self, *_: object) -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled_count += 1
            raise
        return b""


def test_full_queue_rejects_and_leaving_clients_free_slots() -> None:
    async def run() -> None:
        workers, clients = Waiting(workers=1, waiting=1), [Client(), Client()]
        requests = [asyncio.create_task(workers.run(client.request, raise_refusal)) for client in clients]
        await settle()
        assert (await problem(workers, raise_refusal))[0] == "busy"
        clients[0].leaving.set()
        await settle()
        assert (workers.cancelled_count, requests[0].done(), requests[1].done()) == (1, True, False)
        workers.close()
        ends = await asyncio.gather(*requests, return_exceptions=True)
        assert [end.kind for end in ends if isinstance(end, Problem)] == ["stopping", "stopping"]
        assert (await problem(workers, raise_refusal))[0] == "stopping"

    asyncio.run(run())


def test_worker_ends_after_its_server_was_killed(tmp_path: Path) -> None:
    script = (
        "import sys; from tests.unit.streaming.serve import test_workers as t; "
        "from streaming.serve import forecasts as w; w._run_limited(1, t.work, (sys.argv[1], 3600))"
    )
    child = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert child.returncode == -14  # SIGALRM


def test_workers_can_import_the_main_module() -> None:
    script = "import runpy; runpy.run_path('streaming/__main__.py', run_name='__mp_main__')"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (child.returncode, child.stdout, child.stderr) == (0, b"", b"")
