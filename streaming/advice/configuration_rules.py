"""Rules about a client's configuration file alone, without a group's history."""

from __future__ import annotations

import re
from typing import Final

from streaming.advice.clients import COOPERATIVE, LIBRDKAFKA, STRATEGY
from streaming.advice.configuration import ClientConfiguration
from streaming.advice.history import fact
from streaming.advice.model import Finding

#: ``group.min.session.timeout.ms`` of brokers, unless configured.
_MIN_SESSION_MS: Final = 6000
_SESSION: Final = "session.timeout.ms"
_HEARTBEAT: Final = "heartbeat.interval.ms"
_INSTANCE: Final = "group.instance.id"
#: The fewest heartbeats in a session timeout, by the documentation of heartbeat.interval.ms.
_BEATS: Final = 3
#: Parts of a value that are filled in when the process starts.
_PLACEHOLDER: Final = re.compile(r"[$%{<]|@\w+@")


def heartbeat_interval(config: ClientConfiguration) -> Finding | None:
    """Too few heartbeats fit into a session."""
    heartbeat, session = config.milliseconds(_HEARTBEAT), config.milliseconds(_SESSION)
    if not heartbeat or not session or heartbeat * _BEATS <= session:
        return None
    is_refused = heartbeat >= session
    why = "clients refuse that" if is_refused else f"only {session // heartbeat} heartbeats fit into a session"
    text = f"{config.quote(_HEARTBEAT, _SESSION)}: {why}"
    return Finding(
        "critical" if is_refused else "warning",
        [fact(text, heartbeatIntervalMs=heartbeat, sessionTimeoutMs=session)],
        f"Set {_HEARTBEAT} to a third of {_SESSION} at most",
        {_HEARTBEAT: str(session // _BEATS)},
    )


def shared_instance_id(config: ClientConfiguration) -> Finding | None:
    """A literal instance id is shared by all processes that read the file."""
    value = config.values.get(_INSTANCE, "")
    if not value or _PLACEHOLDER.search(value):
        return None
    return Finding(
        "warning",
        [fact(f"{config.quote(_INSTANCE)} is the same for every process that reads the file")],
        "Fill it in for each process, with its host's or its StatefulSet pod's name",
        {_INSTANCE: "${HOSTNAME}"},
        unsure=("a file that one process alone reads is right",),
    )


def mixed_strategies(config: ClientConfiguration) -> Finding | None:
    """Cooperative and eager strategies are in one list."""
    names = config.strategies()
    if COOPERATIVE not in names or names == [COOPERATIVE]:
        return None
    is_refused = config.client is LIBRDKAFKA
    why = "librdkafka refuses both kinds" if is_refused else "a group with such members rebalances eagerly"
    return Finding(
        "critical" if is_refused else "info",
        [fact(f"{config.quote(STRATEGY)}: {why}", strategies=names)],
        f"Leave {COOPERATIVE} alone in the list" + ("" if is_refused else ", once every member lists it"),
        {STRATEGY: COOPERATIVE},
    )
