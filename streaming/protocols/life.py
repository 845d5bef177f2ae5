"""The life of a process, the same under every protocol: it starts, leaves, crashes, freezes, and comes back.

Where protocols differ, the step knows (:class:`streaming.protocols.step.Step`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from streaming.protocols.group import GONE, LIVE, Stage
from streaming.protocols.step import Step
from streaming.protocols.table import Table, rows
from streaming.protocols.vocabulary import (
    NOTHING,
    Crash,
    Freeze,
    Handover,
    Leave,
    Start,
    Stop,
    Subscribe,
    Thaw,
    ghost,
)

AnyStep = Step[Any, Any]


def start(step: AnyStep, event: Start) -> None:
    """Processes find their group and ask to become members, last in the order of joining.

    Of one that ran before, the group may still count the member that it was, under its old member id: this
    remains as a ghost until its session ends.
    """
    names = []
    for client in event.clients:
        name = client.name
        before = step.members.pop(name, None)
        incarnation = step.incarnation(name, before)
        if before is not None and before.counted:
            left = ghost(name, before.incarnation)
            step.members[left] = before
            step.renamed(name, left)
            if before.known:
                step.out.append(Handover(name, left))
            if before.stage is Stage.LEAVING:
                step.goodbye([left])
            else:
                step.watch([left])
        call = 0 if before is None else before.call + 1
        step.members[name] = step.member(client, call=call, incarnation=incarnation)
        names.append(name)
    step.send(step.hello, len(names))
    step.knock(names)
    step.subscriptions()


def leave(step: AnyStep, event: Leave) -> None:
    """Processes leave for good."""
    _end(step, event.names, Stage.LEAVING, says_so=True)


def stop(step: AnyStep, event: Stop) -> None:
    """Processes shut down to come back: the places of static members wait for them, all others leave."""
    static = [name for name in event.names if step.static(step.members[name])]
    dynamic = [name for name in event.names if name not in static]
    if dynamic:
        _end(step, dynamic, Stage.LEAVING, says_so=True)
    if static:
        _end(step, static, Stage.AWAY, says_so=step.says_back_soon)


def crash(step: AnyStep, event: Crash) -> None:
    """Processes end without telling anyone."""
    _end(step, event.names, Stage.CRASHED)


def freeze(step: AnyStep, event: Freeze) -> None:
    """Processes stop for a while; what they own is nobody else's yet."""
    _end(step, event.names, Stage.FROZEN)


def thaw(step: AnyStep, event: Thaw) -> None:
    """Processes go on: in time, as if nothing had happened; too late, they have lost everything and join anew."""
    for name in event.names:
        step.thawed(name)
    step.subscriptions()


def subscribe(step: AnyStep, event: Subscribe) -> None:
    """Processes subscribe to other topics."""
    for name in event.names:
        step.update(name, client=replace(step.members[name].client, topics=event.topics))
    step.resubscribed(event.names)
    step.subscriptions()


def _end(step: AnyStep, names: Collection[str], stage: Stage, *, says_so: bool = False) -> None:
    """Members stop what they do. One that the group does not know just ends; the others say so, or are watched."""
    step.quiet(names)
    step.consume(dict.fromkeys(names, NOTHING))
    known = []
    for name in names:
        member = step.members[name]
        if stage is not Stage.FROZEN and not member.counted:
            del step.members[name]
            continue
        owned = member.owned if stage is Stage.FROZEN else NOTHING
        step.update(name, stage=stage, call=member.call + 1, owned=owned, **step.interrupted(member))
        known.append(name)
    if not says_so:
        step.watch(known)
        step.settle()
    elif known:
        step.send(step.farewell, len(known))
        step.goodbye(known)
    step.subscriptions()


#: What a process may do in which stage. ``Start`` is also defined for one that is not there.
LIFE: Table = {
    **rows(GONE, Start, start, (Stage.STARTING,)),
    **rows(LIVE, Leave, leave, (Stage.LEAVING,)),
    **rows(LIVE, Stop, stop, (Stage.LEAVING, Stage.AWAY), "static: away"),
    **rows((*LIVE, Stage.FROZEN), Crash, crash, (Stage.CRASHED,)),
    **rows(LIVE, Freeze, freeze, (Stage.FROZEN,)),
    **rows((Stage.FROZEN,), Thaw, thaw, (Stage.STABLE, Stage.JOINING, Stage.STARTING)),
    **rows((Stage.STABLE,), Subscribe, subscribe, (Stage.JOINING, Stage.STABLE)),
    **rows((Stage.STARTING, Stage.JOINING, Stage.SYNCING), Subscribe, subscribe),
}

#: The handler of each of these events, whatever the stage.
HANDLERS = {event: row.handler for (_, event), row in LIFE.items()}
