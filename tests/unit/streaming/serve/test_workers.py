from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from assignors.errors import BadInput
from streaming.records.codec import encode
from streaming.serve import server
from streaming.serve.forecasts import Workers
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from streaming.serve.server import ServeOptions
from tests.support.asgi import ask
from tests.support.compacted import checkout, latest
from tests.support.feed import ASSIGNMENTS, service
from tests.support.feed_server import Running, asking, running
from tests.support.processes import children
from tests.support.wait import eventually

COSTLY = "/api/v1/groups/g/forecast?scale=200000"
CHEAP = "/api/v1/groups/g/what-if?add=1"
#: Where the tests can run a process of their own: it notes its id here.
WORK = "work.pid"


class Odd(BadInput):
    """A refusal whose arguments pickle can't repeat."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def work(folder: str, seconds: float) -> bytes:
    (Path(folder) / WORK).write_text(str(os.getpid()))
    time.sleep(seconds)
    return b"1"


def refuse() -> bytes:
    raise Odd("a", "b")


def fill() -> bytes:
    return bytes(2**40)


def end() -> bytes:
    os._exit(1)


def is_running(folder: Path) -> bool:
    try:
        pid = int((folder / WORK).read_text())
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (OSError, ValueError):
        return False


@pytest.fixture
def app(history: History) -> Callable[..., ASGIApp]:
    history.append([TopicRecord(ASSIGNMENTS, 0, 0, b"g", encode(latest(checkout("g"))), None)])
    return lambda **more: service(history, workers=Workers(**more))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of this test give a request 4 s."""
    monkeypatch.setattr(server, "Workers", lambda: Workers(seconds=4, workers=1, waiting=1))


def store_group(feed: Running) -> None:
    feed.source.put(TopicRecord(ASSIGNMENTS, 0, 0, b"g", encode(latest(checkout("g"))), None))
    eventually(lambda: feed.ask("/api/v1/groups/g")[0] == 200)


@pytest.mark.parametrize(
    "target",
    [
        COSTLY,
        "/api/v1/groups/g/what-if?add=10000&partitions=t=1000000",
        "/api/v1/groups/g/migrate?parallel=1&between_ms=86400000",
    ],
)
def test_the_time_of_a_request_is_bounded(app: Callable[..., ASGIApp], target: str) -> None:
    began = time.monotonic()
    answer = ask(app(seconds=3), target)
    assert time.monotonic() - began < 15
    assert answer.status in (200, 422)
    if answer.status == 422:
        assert "takes more than" in answer.json["detail"]
    assert ask(app(), CHEAP).status == 200


def run(function: Callable[..., bytes], *arguments: object, **more: float) -> tuple[int, str]:
    """Status and detail of what a worker makes of a function."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from streaming.serve.problems import Problem, on_error

    found = Workers(**more)  # type: ignore[arg-type]

    async def answer(request: Request) -> Response:
        return Response(await found.run(request, function, *arguments))

    answer_of = ask(Starlette(routes=[Route("/", answer)], exception_handlers={Problem: on_error}), "/")
    return answer_of.status, "" if answer_of.status == 200 else answer_of.json["detail"]


def test_failure_in_a_worker_is_reported(tmp_path: Path) -> None:
    assert run(work, str(tmp_path), 0) == (200, "")
    assert run(refuse) == (422, "a and b")
    assert run(end) == (503, "the process that computed it ended")
    status, detail = run(fill)
    assert (status, "memory" in detail) == (422, True)


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    assert run(work, str(tmp_path), 60, seconds=3)[0] == 422
    eventually(lambda: not is_running(tmp_path))


@pytest.mark.usefixtures("short")
def test_full_queue_is_reported_and_delays_no_other_request(options: ServeOptions) -> None:
    with running(options) as feed, ThreadPoolExecutor(4) as clients:
        store_group(feed)
        asked = [clients.submit(feed.ask, COSTLY) for _ in range(4)]
        eventually(lambda: sum(one.done() for one in asked) == 2)
        refused = [one.result() for one in asked if one.done()]
        assert [status for status, _ in refused] == [503, 503]
        assert all(json.loads(body)["type"] == "/problems#busy" for _, body in refused)
        began = time.monotonic()
        assert feed.ask("/api/v1/groups")[0] == 200
        assert time.monotonic() - began < 2
        assert sorted(one.result()[0] for one in asked) == [422, 422, 503, 503]
        assert feed.ask(CHEAP)[0] == 200


@pytest.mark.usefixtures("short")
def test_nothing_is_computed_for_a_client_that_left(options: ServeOptions) -> None:
    with running(options) as feed:
        store_group(feed)
        for _ in range(2):
            with closing(asking(feed.port, COSTLY)):
                time.sleep(0.5)  # what is tried: the client leaves while its answer is computed
        began = time.monotonic()
        assert feed.ask(CHEAP)[0] == 200
        assert time.monotonic() - began < 3.5


def test_the_end_of_the_server_waits_for_no_computation(options: ServeOptions) -> None:
    with running(options) as feed:
        store_group(feed)
        idle = len(children(os.getpid()))
        client = asking(feed.port, COSTLY)
        eventually(lambda: len(children(os.getpid())) > idle)
        began = time.monotonic()
    assert time.monotonic() - began < 3
    client.close()


def test_a_worker_ends_itself_where_its_server_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys; from tests.unit.streaming.serve import test_workers as t; "
        "from streaming.serve import forecasts as w; w._run_limited(1, t.work, (sys.argv[1], 60))"
    )
    child = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=30)
    assert child.returncode == -14  # SIGALRM


def test_the_program_can_be_imported_by_a_worker() -> None:
    script = "import runpy; runpy.run_path('streaming/__main__.py', run_name='__mp_main__')"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=60)
    assert (child.returncode, child.stdout, child.stderr) == (0, b"", b"")
