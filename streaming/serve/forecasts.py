"""Forecasts and advice over HTTP, from the history: the cost of a change of a group, and recommended changes.

The history has the owners of partitions. Members' settings, assignors and unassigned partitions are in the membership
log alone, which only the commands ``forecast``, ``migrate`` and ``what-if`` read; each answer mentions that.
Forecasts are computed in processes that are killed when they take too long, or when their client has left.
"""

import asyncio
import os
import resource
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import BrokenWorkerProcess, CapacityLimiter, to_process
from msgspec import structs
from starlette.requests import Request

from assignors.errors import BadInput
from assignors.model import Topic
from streaming.advice.history import GroupHistory
from streaming.advice.replay import MAX_SIMULATION_WORK, Budget
from streaming.advice.rules import advise
from streaming.records.codec import encode
from streaming.records.diffs import assignment_decoder, diff_decoder
from streaming.records.episodes import decode_episode, decode_incident
from streaming.serve.archive import PastGroupRows
from streaming.serve.connections import wait_for_disconnect
from streaming.serve.problems import Problem
from streaming.simulation import what_if_query
from streaming.simulation.changes import RollingRestart, ScaleChange, baseline_of, request_change
from streaming.simulation.forecast import forecast_change, forecast_document
from streaming.simulation.live_group import LiveGroup, MembershipLog
from streaming.simulation.migration import plan_migration
from streaming.simulation.what_if import apply_change, previews

_UNCERTAINTY_ERRORS: Final = (
    "by the history alone, without members' settings, subscriptions and unassigned partitions; "
    "the commands of these names read them"
)


def forecast(assignment: bytes | None, change: RollingRestart | ScaleChange, times: Mapping[str, int]) -> bytes:
    """Return the document of ``forecast --json`` without rounds; raise BadInput if the change can't be forecast.

    ``times`` replace the times of a scenario, ms.
    """
    group = _live_group(assignment)
    result = forecast_change(request_change(baseline_of(group), times, change), rounds=False)
    return encode(forecast_document(group.group_id, result))


def plan(assignment: bytes | None, targets: tuple[str, ...], change: RollingRestart, times: Mapping[str, int]) -> bytes:
    """Return the document of ``migrate --json`` without past steps (``happened``); raise errors of :func:`forecast`."""
    return encode(plan_migration(_live_group(assignment), targets, restart=change, times=times))


def what_if(assignment: bytes | None, options: Mapping[str, Any]) -> bytes:
    """Return the document of ``what-if --json``; raise errors of :func:`forecast`. ``options``: see ``parse_query``."""
    group = _live_group(assignment)
    counts: dict[str, int] = {}
    for member in group.members:
        for topic, numbers in member.owned.items():
            counts[topic] = max(counts.get(topic, 0), 1 + max(numbers))
    group = group._replace(topics={name: Topic(name, count) for name, count in sorted(counts.items())})
    query = what_if_query.parse_query(group, **options)
    change = apply_change(group, query.changes)
    result = list(previews(change))
    return encode(what_if_query.what_if_document(change, result, query.chosen(result)))


def advice(group: str, now_ms: int, past: PastGroupRows) -> bytes:
    """Return the document of ``advise --json`` for a group, without members' settings."""
    assignment, episodes, incidents, rounds = past
    history = GroupHistory(
        group,
        now_ms,
        episodes=list(map(decode_episode, episodes)),
        latest=None if assignment is None else assignment_decoder.decode(assignment),
        incidents=list(map(decode_incident, incidents)),
        rounds={number: list(map(diff_decoder.decode, bodies)) for number, bodies in rounds.items()},
    )
    return encode({"groupId": group, "advice": advise(history, Budget(MAX_SIMULATION_WORK))})


def _live_group(assignment: bytes | None) -> LiveGroup:
    if assignment is None:
        raise BadInput("the history has no assignment of this group yet")
    latest = assignment_decoder.decode(assignment)
    group = MembershipLog(latest.group_id).group(latest)
    owned_topics = tuple(sorted({topic for member in group.members for topic in member.owned}))
    members = tuple(structs.replace(member, topics=owned_topics) for member in group.members)
    return group._replace(members=members, unknown=(_UNCERTAINTY_ERRORS,))


#: Limits of one request. A change of any size is computed, if it takes less time and memory.
MAX_SECONDS: Final = 20.0
_MAX_MEMORY_BYTES: Final = 2 * 2**30
#: The most requests that are computed at once, and the most that wait.
MAX_WORKERS: Final = min(2, os.cpu_count() or 1)
MAX_QUEUE: Final = 4
#: Seconds after its time limit at which a process ends itself, in case the server that should kill it is gone.
_KILL_AFTER_SECONDS: Final = 5.0


class WorkerPool:
    """Computes forecasts in a few worker processes, with a bounded queue of requests."""

    def __init__(self, *, seconds: float = MAX_SECONDS, workers: int = MAX_WORKERS, waiting: int = MAX_QUEUE) -> None:
        self._limit_seconds = seconds
        self._max_requests = workers + waiting
        self._slots, self._processes = CapacityLimiter(workers), CapacityLimiter(workers)
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._is_closing = False

    async def run(self, request: Request, function: Callable[..., bytes], *arguments: object) -> bytes:
        """Return the result of a function that runs in a worker process; raise Problem if it fails or can't run."""
        if len(self._tasks) >= self._max_requests:
            waiting = f"{len(self._tasks)} requests of this kind are computed or wait already; try again later"
            raise Problem("busy", waiting)
        task = asyncio.create_task(self._run_in_worker(function, arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        leaving = asyncio.create_task(wait_for_disconnect(request.receive))
        try:
            if not self._is_closing:
                await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not task.cancelled():
                return task.result()
        finally:
            leaving.cancel()
            task.cancel()  # which kills its process
        raise Problem("stopping", "the server is stopping")

    def close(self) -> None:
        """Cancel the forecasts that are being computed, because the server is about to end."""
        self._is_closing = True
        for task in self._tasks:
            task.cancel()

    async def _run_in_worker(self, function: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
        async with self._slots:
            try:
                with anyio.fail_after(self._limit_seconds):
                    limited = self._limit_seconds + _KILL_AFTER_SECONDS, function, arguments
                    return await to_process.run_sync(_run_limited, *limited, cancellable=True, limiter=self._processes)
            except BadInput as refusal:
                raise Problem("forecast", str(refusal)) from refusal
            except (TimeoutError, MemoryError) as error:
                is_late = isinstance(error, TimeoutError)
                most = f"{self._limit_seconds:g} s" if is_late else f"{_MAX_MEMORY_BYTES >> 30} GiB of memory"
                detail = f"takes more than {most}, the limit here; the commands of these names have none"
                raise Problem("forecast", detail) from error
            except BrokenWorkerProcess as error:
                raise Problem("worker", "the process that computed it ended") from error


def _run_limited(seconds: float, function: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
    """Run a function in the worker process, with low priority and limits of memory and time."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(max(0, 10 - os.nice(0)))
    with suppress(OSError):  # Linux: if memory runs out, the kernel kills this process and not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):  # the limit is lower already
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(*arguments)
    except BadInput as refusal:
        raise BadInput(str(refusal)) from None  # the server may not be able to unpickle a subclass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
