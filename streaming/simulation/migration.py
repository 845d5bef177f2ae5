"""Migration plans of a live group: obstacles, steps, and the forecast cost of each step.

Cooperative: KIP-429, "Compatibility and Upgrade Path", two rolling bounces. Clients since 3.0 have done the
first one by default (KIP-726). Static: KIP-345. KIP-848: "Consumer Rebalance Protocol" in the operations part of
Kafka's documentation, a rolling restart if the assignor puts no data of its own into assignments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from assignors.assignment import as_lists
from streaming.protocols.families import FAMILIES
from streaming.records.episodes import Episode
from streaming.simulation.baseline import Baseline, NoForecast, baseline_of
from streaming.simulation.changes import RollingRestart
from streaming.simulation.forecast import Cost, Way, cost_figures, simulate_as_configured, ways
from streaming.simulation.live_group import LiveGroup, LiveMember
from streaming.simulation.parse import parse_scenario

COOPERATIVE: Final = "cooperative-sticky"
TARGETS: Final = ("cooperative", "static", "consumer")

#: Clients that say what they are in the client id they have by default, and can't speak KIP-848.
_WITHOUT_KIP_848: Final = re.compile(r"(kafka-python|aiokafka)-([0-9][0-9.]*)")


class Obstacle(NamedTuple):
    """Obstacle of one member; ``step``: the number of the step that removes it, or None."""

    member_id: str
    name: str
    reason: str
    step: int | None


class MigrationStep(NamedTuple):
    """One step; ``cost``: of its rolling restart, None where there is none."""

    description: str
    cost: Cost | None = None


class MigrationPath(NamedTuple):
    """The way to one target. ``state``: ``done``, ``ready`` or ``blocked``."""

    to: str
    state: str
    hindrances: Sequence[Obstacle] = ()
    steps: Sequence[MigrationStep] = ()
    unsure: Sequence[str] = ()


class MigrationPlan(NamedTuple):
    """The group's current way to rebalance, and the path to each target."""

    start: Baseline
    paths: Sequence[MigrationPath]


class _StepSimulator:
    """Simulates steps one after the other, each from the end of the last."""

    def __init__(
        self,
        group: LiveGroup,
        begun: Baseline,
        restart: RollingRestart,
        times: Mapping[str, int],
        each: Callable[[int], None],
    ) -> None:
        self.start = begun
        self.restart = restart
        self._document = {**begun.document, **times}
        self._each = each
        self._by_name = dict(zip(begun.members, group.members, strict=True))
        self._members: dict[str, dict[str, Any]] = {
            name: {
                **config,
                "assignors": list(_playable_assignors(self._by_name[name], group)),
                "group_protocol": "classic" if self._by_name[name].classic else "consumer",
            }
            for name, config in begun.document["members"].items()
        }

    def member(self, name: str) -> LiveMember:
        return self._by_name[name]

    def restarted(self, way: Way, names: Sequence[str], **config: Any) -> Cost:
        new = {
            name: {key: value(name) if callable(value) else value for key, value in config.items()} for name in names
        }
        events = [{**event, **new[event["bounce"]]} for event in self.restart.events(names, len(self._members))]
        plan_migration = parse_scenario({**self._document, "members": self._members, "events": events})
        cost = simulate_as_configured(plan_migration, way, rounds=False, each=self._each)
        held = cost.simulation.result.held
        for name, member in self._members.items():
            member.update(owned=as_lists(held.get(name, {})), **new.get(name, {}))
        return cost


def _playable_assignors(member: LiveMember, group: LiveGroup) -> tuple[str, ...]:
    assignors = member.assignors or ((group.assignor,) if group.assignor else ())
    playable = tuple(assignor for assignor in assignors if assignor in FAMILIES["eager"].carries)
    return playable or (FAMILIES["eager"].default,)


def parse_targets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the requested targets, or all."""
    for name in names:
        if name not in TARGETS:
            raise NoForecast(f"--to: {name!r} is none of {', '.join(TARGETS)}")
    return tuple(dict.fromkeys(names)) or TARGETS


def plan_migration(
    group: LiveGroup,
    targets: Sequence[str] = TARGETS,
    *,
    restart: RollingRestart | None = None,
    times: Mapping[str, int] | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> MigrationPlan:
    """Return the path to each of ``targets``."""
    if group.kind in _UNSUPPORTED_KINDS:
        raise NoForecast(f"group {group.group_id}: {_UNSUPPORTED_KINDS[group.kind]}")
    begun = baseline_of(group)
    make = {"cooperative": _cooperative, "static": _static, "consumer": _consumer}
    return MigrationPlan(
        begun,
        [
            make[target](group, _StepSimulator(group, begun, restart or RollingRestart(), times or {}, each))
            for target in targets
        ],
    )


_UNSUPPORTED_KINDS: Final = {
    "connect": "Connect's workers choose by connect.protocol, which is sessioned, the newest, by default",
    "streams": "Kafka Streams chooses by group.protocol=streams (KIP-1071), and can't change it online",
    "share": "a share group has one protocol only",
}


def _cooperative(group: LiveGroup, playing: _StepSimulator) -> MigrationPath:
    """Two rolling bounces: add ``cooperative-sticky`` to every list, then take the others out."""
    if playing.start.protocol == "cooperative":
        return MigrationPath("cooperative", "done")
    if group.protocol == "consumer":
        return MigrationPath("cooperative", "done", unsure=[_ALREADY])
    names = playing.start.members
    without = [name for name in names if COOPERATIVE not in playing.member(name).assignors]
    hindrances = []
    for name in without:
        member = playing.member(name)
        lists = ", ".join(member.assignors)
        reason = f"lists {lists}, without {COOPERATIVE}" if lists else f"its list is not known; {_chosen(group)}"
        hindrances.append(Obstacle(member.member_id, name, reason, 1))
    last = 2 if without else 1
    hindrances += [
        Obstacle(member.member_id, name, f"lists {', '.join(member.assignors)}: it gives up all before it joins", last)
        for name in names
        if COOPERATIVE in (member := playing.member(name)).assignors and len(member.assignors) > 1
    ]
    way = next(way for way in ways(playing.start.protocol, group.assignor) if way.name == "cooperative")
    steps = []
    if without:
        kept = {name: list(_playable_assignors(playing.member(name), group)) for name in names}
        cost = playing.restarted(way, without, assignors=lambda name: [COOPERATIVE, *kept[name]])
        steps.append(
            MigrationStep(
                f"Rolling restart with {COOPERATIVE} added to partition.assignment.strategy, before what is there "
                "(clients of 2.4 or newer)",
                cost,
            )
        )
    steps.append(
        MigrationStep(
            f"Rolling restart with {COOPERATIVE} alone in partition.assignment.strategy, once every member has the "
            "list of both",
            playing.restarted(way, names, assignors=[COOPERATIVE]),
        )
    )
    return MigrationPath("cooperative", "ready", hindrances, steps, [_VERSIONS])


_ALREADY: Final = "under KIP-848 every group rebalances incrementally: there is nothing to gain"
_VERSIONS: Final = "client versions are in no record of a group: cooperative-sticky needs clients of 2.4 or newer"


def _chosen(group: LiveGroup) -> str:
    return f"the group chose {group.assignor}" if group.assignor else "nor is what the group chose"


def _static(_: LiveGroup, playing: _StepSimulator) -> MigrationPath:
    names = playing.start.members
    without = [name for name in names if playing.member(name).names.group_instance_id is None]
    if not without:
        return MigrationPath("static", "done")
    hindrances = [Obstacle(playing.member(name).member_id, name, "has no group.instance.id", 1) for name in without]
    begun = playing.start
    own = next(way for way in ways(begun.protocol, begun.assignor) if way.name == begun.protocol)
    first = playing.restarted(own, without, instance_id=lambda name: name)
    after = playing.restarted(own, names)
    steps = [
        MigrationStep("Rolling restart with a group.instance.id for every member, its own, which it keeps", first),
        MigrationStep("Every rolling restart after that", after),
    ]
    unsure = []
    if after.simulation.result.rebalances:
        unsure.append(
            f"members that are away for {playing.restart.down_ms} ms are taken for lost, with a session timeout "
            f"of {begun.document['session_timeout_ms']} ms since their last heartbeat: raise session.timeout.ms "
            "(under KIP-848 group.consumer.session.timeout.ms)"
        )
    return MigrationPath("static", "ready", hindrances, steps, unsure)


def _consumer(group: LiveGroup, playing: _StepSimulator) -> MigrationPath:
    """One rolling bounce: ``group.protocol=consumer``."""
    names = playing.start.members
    classic = [name for name in names if playing.member(name).classic]
    if group.protocol == "consumer" and not classic:
        return MigrationPath("consumer", "done")
    hindrances = [found for name in classic if (found := _consumer_obstacle(group, name, playing.member(name)))]
    way = next(way for way in ways("consumer", None) if way.name == "consumer")
    steps = [
        MigrationStep(
            "Brokers of 4.0 or newer, with the feature group.version=1 and "
            "group.consumer.migration.policy=bidirectional, as they have it by default"
        ),
        MigrationStep(
            "Rolling restart with group.protocol=consumer; partition.assignment.strategy, session.timeout.ms and "
            "heartbeat.interval.ms go, the brokers decide them (Java clients of 4.0, librdkafka of 2.12, or newer)",
            playing.restarted(way, classic, group_protocol="consumer"),
        ),
    ]
    unsure = ["neither the brokers' version nor most clients' are in any record of a group"]
    if len(classic) < len(names):
        unsure.append(f"{len(names) - len(classic)} of {len(names)} members speak it: the group is half migrated")
    blocked = any(obstacle.step is None for obstacle in hindrances)
    return MigrationPath("consumer", "blocked" if blocked else "ready", hindrances, steps, unsure)


def _consumer_obstacle(group: LiveGroup, name: str, member: LiveMember) -> Obstacle | None:
    """Return what keeps a member from KIP-848, or None."""
    assignors = member.assignors
    if not assignors and group.assignor is not None and group.protocol == "classic":
        assignors = (group.assignor,)
    custom = [assignor for assignor in assignors if assignor not in FAMILIES["eager"].carries]
    if custom:
        reason = (
            f"custom assignor {', '.join(custom)}: KIP-848 has none in clients; let every member list one of "
            "Kafka's first, or write it for the brokers (group.consumer.assignors)"
        )
        return Obstacle(member.member_id, name, reason, None)
    client = _WITHOUT_KIP_848.match(member.names.client_id or "")
    if client:
        return Obstacle(member.member_id, name, f"{client[1]} {client[2]} does not speak KIP-848", None)
    return None


#: Episodes in which a step may have happened.
_STEPS: Final = ("protocol-migration", "assignor-change", "rolling-restart", "restart", "static-bounce")
#: The most past steps in the document.
_MAX_PAST_STEPS: Final = 5


class PastStep(NamedTuple):
    """A past episode, and its forecast cost; None where it can't be forecast."""

    episode: Episode
    cost: Cost | None = None


def recent_steps(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the last episodes that may have been a migration step, the newest first."""
    steps = [episode for episode in episodes if episode.kind in _STEPS]
    return sorted(steps, key=lambda one: (one.opened_at, one.episode), reverse=True)[:_MAX_PAST_STEPS]


def migration_document(group_id: str, plan: MigrationPlan, went: Sequence[PastStep]) -> dict[str, Any]:
    """Return the document of ``migrate --json``; ``went`` are past steps."""
    return {
        "groupId": group_id,
        "now": plan.start.way,
        "assignor": plan.start.assignor,
        "targets": {path.to: _path_document(path) for path in plan.paths},
        "happened": [_past_step_document(step) for step in went],
        "unsure": list(plan.start.unsure),
    }


def _path_document(path: MigrationPath) -> dict[str, Any]:
    return {
        "state": path.state,
        "inTheWay": [
            {"memberId": each.member_id, "name": each.name, "reason": each.reason, "step": each.step}
            for each in path.hindrances
        ],
        "steps": [
            {"says": step.description, "forecast": None if step.cost is None else cost_figures(step.cost)}
            for step in path.steps
        ],
        "unsure": list(path.unsure),
    }


def _past_step_document(went: PastStep) -> dict[str, Any]:
    one, downtime = went.episode, None
    if one.downtime is not None:
        downtime = {"lowerMs": one.downtime.lower_ms, "upperMs": one.downtime.upper_ms}
    return {
        "episode": one.episode,
        "kind": one.kind,
        "status": one.status,
        "openedAt": one.opened_at,
        "rebalances": one.rebalances,
        "rounds": one.round_count,
        "moved": one.moved,
        "downtime": downtime,
        "forecast": None if went.cost is None else cost_figures(went.cost),
    }
