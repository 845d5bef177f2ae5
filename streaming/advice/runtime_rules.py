"""Rules about Kafka Streams and Kafka Connect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import UNSET

from streaming.advice.history import PATTERN, GroupHistory, fact, listed
from streaming.advice.model import Finding, Saving
from streaming.episodes.story import count, duration
from streaming.records.episodes import Episode
from streaming.records.events import PROBING

#: Kafka's default of ``scheduled.rebalance.max.delay.ms``.
_DEFAULT_DELAY_MS: Final = 300_000


def probing_rebalances(history: GroupHistory) -> Finding | None:
    """Kafka Streams rebalances again and again to check whether warm-up tasks have caught up."""
    probes = {episode.episode: _probes(history, episode) for episode in history.recent}
    episodes = [episode for episode in history.recent if probes[episode.episode]]
    total = sum(probes.values())
    if history.kind != "streams" or total <= PATTERN:
        return None
    return Finding(
        "info",
        [fact(f"At least {total} probing rebalances in {listed(episodes)}", episodes, probing=total)],
        "Keep standby tasks, so that a new owner has caught up when it takes over; or raise "
        "acceptable.recovery.lag to the lag that a takeover may have",
        {"num.standby.replicas": "1", "acceptable.recovery.lag": "<offsets that a takeover may lag>"},
        unsure=("the lag of tasks' state is in no record of the group",),
    )


def _probes(history: GroupHistory, episode: Episode) -> int:
    probes = sum(diff.cause.kind == PROBING for diff in history.rounds.get(episode.episode, ()))
    return probes or any(item.kind == PROBING for item in episode.evidence)


class _Departure(NamedTuple):
    """A departed Connect worker: its tasks' scheduled delay, time until a worker was back (ms), number of tasks."""

    episode: int
    delay_ms: int
    back_ms: int
    tasks: int


def scheduled_delay(history: GroupHistory) -> Finding | None:
    """Tasks of a departed Connect worker wait for longer than workers take to restart."""
    departures = [departure for episode in history.recent for departure in _departures(history, episode)]
    if history.kind != "connect" or not departures:
        return None
    slowest = max(departure.back_ms for departure in departures)
    longest = max(departure.delay_ms for departure in departures)
    wanted = -(-slowest * 3 // 2 // 5000) * 5000
    if longest < PATTERN * wanted:
        return None
    numbers = {departure.episode for departure in departures}
    episodes = [episode for episode in history.recent if episode.episode in numbers]
    text = f"Workers were back within {duration(slowest)} in {listed(episodes)}; tasks wait {duration(longest)}"
    text += " (scheduled.rebalance.max.delay.ms"
    text += ", the default)" if longest == _DEFAULT_DELAY_MS else ")"
    waits = (
        sum(departure.delay_ms * departure.tasks for departure in departures),
        sum(min(wanted, departure.delay_ms) * departure.tasks for departure in departures),
    )
    saved = f"{duration(waits[1])} instead of {duration(waits[0])} of waiting in {count(len(departures), 'restart')}"
    return Finding(
        "warning",
        [fact(text, episodes, restarts=len(departures), slowestRestartMs=slowest, delayMs=longest)],
        f"Lower scheduled.rebalance.max.delay.ms to {wanted} on all workers",
        {"scheduled.rebalance.max.delay.ms": str(wanted)},
        saving=Saving(text=f"{saved}, all tasks together", episodes=sorted(numbers, reverse=True), downtime_ms=waits),
    )


def _departures(history: GroupHistory, episode: Episode) -> Iterator[_Departure]:
    for before, after in pairwise(history.rounds.get(episode.episode, ())):
        has_joined = any(
            member.present is not False and name not in before.members for name, member in after.members.items()
        )
        tasks = sum(map(len, before.unassigned.values()))
        if before.delay_ms is not UNSET and before.delay_ms and has_joined and tasks:
            yield _Departure(episode.episode, before.delay_ms, after.timestamp - before.timestamp, tasks)
