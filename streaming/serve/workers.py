"""Requests that cost processor time: each in a process that is killed when it takes too long, or nobody waits."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final

import anyio
from anyio import BrokenWorkerProcess, CapacityLimiter, to_process
from starlette.requests import Request

from assignors.errors import BadInput
from streaming.serve.problems import Problem

#: What one request may take: the time is bounded, not the size of what is asked.
MOST_SECONDS: Final = 20.0
_MOST_MEMORY_BYTES: Final = 2 * 2**30
#: Requests that are computed at once, and that wait for their turn.
WORKERS: Final = min(2, os.cpu_count() or 1)
MOST_WAITING: Final = 4
#: Seconds after which a process ends itself: the server that should have killed it is gone.
_ORPHAN_SECONDS: Final = 5.0
_RETRY: Final = {"Retry-After": "10"}


class Workers:
    """Computes answers in a few processes, with a bounded queue before them."""

    def __init__(
        self, *, seconds: float = MOST_SECONDS, workers: int = WORKERS, waiting: int = MOST_WAITING
    ) -> None:
        self._seconds = seconds
        self._most = workers + waiting
        self._turns, self._processes = CapacityLimiter(workers), CapacityLimiter(workers)
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._is_closing = False

    async def run(self, request: Request, function: Callable[..., bytes], *arguments: object) -> bytes:
        """Return what a module's function makes of its arguments.

        Raises:
            Problem: the queue is full, it takes too long or too much memory, or the server is stopping; the
                function's own ``BadInput`` becomes one too.
        """
        if len(self._tasks) >= self._most:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "busy",
                f"{len(self._tasks)} requests of this kind are computed or wait already; try again later",
                _RETRY,
            )
        task = asyncio.create_task(self._compute(function, arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        leaving = asyncio.create_task(_wait_for_leaving(request))
        try:
            if not self._is_closing:
                await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not task.cancelled():
                return task.result()
        finally:
            leaving.cancel()
            task.cancel()  # which kills its process
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "stopping", "the server is stopping", _RETRY)

    def close(self) -> None:
        """Kill what is computed, as the server is about to end."""
        self._is_closing = True
        for task in self._tasks:
            task.cancel()

    async def _compute(self, function: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
        async with self._turns:
            try:
                with anyio.fail_after(self._seconds):
                    return await to_process.run_sync(
                        _run_limited,
                        *(self._seconds + _ORPHAN_SECONDS, function, arguments),
                        cancellable=True,
                        limiter=self._processes,
                    )
            except BadInput as refusal:
                raise _refusal(str(refusal)) from refusal
            except TimeoutError as error:
                raise _refusal(
                    f"takes more than {self._seconds:g} s, the limit here; the commands of these names have none"
                ) from error
            except MemoryError as error:
                raise _refusal(
                    f"takes more than {_MOST_MEMORY_BYTES >> 30} GiB of memory, the limit here; "
                    "the commands of these names have none"
                ) from error
            except BrokenWorkerProcess as error:
                raise Problem(
                    HTTPStatus.SERVICE_UNAVAILABLE, "worker", "the process that computed it ended", _RETRY
                ) from error


def _refusal(detail: str) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "forecast", detail)


async def _wait_for_leaving(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _run_limited(seconds: float, function: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
    """In the worker process: run it so that it hurts nobody, and not for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(max(0, 10 - os.nice(0)))
    with suppress(OSError):  # Linux: where memory runs out, this process goes and not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):  # a limit that is lower already
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(*arguments)
    except BadInput as refusal:
        raise BadInput(str(refusal)) from None  # one that every process can unpickle
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
