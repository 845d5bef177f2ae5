"""Migration of a live group to another protocol: obstacles, steps, and the forecast cost of each step.

A migration to cooperative needs two rolling bounces (KIP-429, "Compatibility and Upgrade Path"); clients since 3.0 need
only the second one, as their default list already has both assignors (KIP-726). Static membership: KIP-345. A migration
to KIP-848 needs one rolling restart, if the assignor does not add its own data to assignments ("Consumer Rebalance
Protocol" in the operations part of Kafka's documentation).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assignors.assignment import as_lists
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.records.episodes import Episode
from streaming.simulation.changes import NoForecast, RollingRestart, baseline_of
from streaming.simulation.forecast import ChangeCost, Way, cost_figures, find_way, simulate_cost
from streaming.simulation.live_group import LiveGroup, LiveMember
from streaming.simulation.parse import parse_scenario

COOPERATIVE: Final = "cooperative-sticky"
TARGETS: Final = ("cooperative", "static", "consumer")
#: Default client ids of client libraries without KIP-848.
_CLIENT_WITHOUT_KIP_848: Final = re.compile(r"(kafka-python|aiokafka)-([0-9][0-9.]*)")
_UNSUPPORTED_KINDS: Final = {
    "connect": "Connect's workers choose by connect.protocol, which is sessioned, the newest, by default",
    "streams": "Kafka Streams chooses by group.protocol=streams (KIP-1071), and can't change it online",
    "share": "a share group has one protocol only",
}
_ALREADY_INCREMENTAL_TEXT: Final = "under KIP-848 every group rebalances incrementally: there is nothing to gain"
_VERSIONS_TEXT: Final = "client versions are in no record of a group: cooperative-sticky needs clients of 2.4 or newer"
_ADD_COOPERATIVE_STEP: Final = (
    f"Rolling restart with {COOPERATIVE} added to partition.assignment.strategy, before what is there "
    "(clients of 2.4 or newer)"
)
_ONLY_COOPERATIVE_STEP: Final = (
    f"Rolling restart with {COOPERATIVE} alone in partition.assignment.strategy, once every member has the list of both"
)
_INSTANCE_IDS: Final = "Rolling restart with a group.instance.id for every member, its own, which it keeps"
_BROKERS_STEP: Final = (
    "Brokers of 4.0 or newer, with the feature group.version=1 and group.consumer.migration.policy=bidirectional, as "
    "they have it by default"
)
_GROUP_PROTOCOL: Final = (
    "Rolling restart with group.protocol=consumer; partition.assignment.strategy, session.timeout.ms and "
    "heartbeat.interval.ms go, the brokers decide them (Java clients of 4.0, librdkafka of 2.12, or newer)"
)
#: Kinds of episodes that may be a migration step, and the largest number of such episodes in the document.
_PAST_STEP_KINDS: Final = ("protocol-migration", "assignor-change", "rolling-restart", "restart", "static-bounce")
_MAX_PAST_STEPS: Final = 5
#: ``{"state", "inTheWay", "steps", "unsure"}`` for one target of a migration.
MigrationPath = dict[str, Any]
#: A member, its name, the reason why it is in the way, and the number of the step that removes the obstacle, or None.
MigrationObstacle = tuple[LiveMember, str, str, int | None]


def parse_targets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the target protocols that a migration plan was requested for, by default all."""
    for name in names:
        if name not in TARGETS:
            raise NoForecast(f"--to: {name!r} is not one of {', '.join(TARGETS)}")
    return tuple(dict.fromkeys(names)) or TARGETS


def plan_migration(
    group: LiveGroup,
    targets: Sequence[str] = TARGETS,
    *,
    restart: RollingRestart | None = None,
    times: Mapping[str, int] | None = None,
    past_steps: Sequence[tuple[Episode, ChangeCost | None]] = (),
    on_step: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the JSON document that ``migrate --json`` prints; ``past_steps``: past steps with their forecast costs.

    Raises NoForecast for groups without members, and for kinds of groups that migrate differently.
    """
    if group.kind in _UNSUPPORTED_KINDS:
        raise NoForecast(f"group {group.group_id}: {_UNSUPPORTED_KINDS[group.kind]}")
    plans = {target: _MigrationPlan(group, restart or RollingRestart(), times or {}, on_step) for target in targets}
    paths = {target: getattr(plan, target)() for target, plan in plans.items()}
    start = baseline_of(group)
    return {
        "groupId": group.group_id,
        "now": start.way,
        "assignor": start.assignor,
        "targets": paths,
        "happened": [
            {
                "episode": episode.episode,
                "kind": episode.kind,
                "status": episode.status,
                "openedAt": episode.opened_at,
                "rebalances": episode.rebalances,
                "rounds": episode.round_count,
                "moved": episode.moved,
                "downtime": downtime and {"lowerMs": downtime.lower_ms, "upperMs": downtime.upper_ms},
                "forecast": cost and cost_figures(cost),
            }
            for episode, cost in past_steps
            for downtime in (episode.downtime,)
        ],
        "unsure": list(start.unsure),
    }


def _path(
    state: str,
    obstacles: Sequence[MigrationObstacle] = (),
    steps: Sequence[tuple[str, ChangeCost | None]] = (),
    unsure: Sequence[str] = (),
) -> MigrationPath:
    return {
        "state": state,
        "inTheWay": [
            {"memberId": member.member_id, "name": name, "reason": reason, "step": step}
            for member, name, reason, step in obstacles
        ],
        "steps": [{"says": text, "forecast": None if cost is None else cost_figures(cost)} for text, cost in steps],
        "unsure": list(unsure),
    }


class _MigrationPlan:
    """Builder of migration plans, with one method per target; each step starts from the result of the previous step."""

    def __init__(
        self, group: LiveGroup, restart: RollingRestart, times: Mapping[str, int], on_step: Callable[[int], None]
    ) -> None:
        self.group, self.restart, self.start = group, restart, baseline_of(group)
        self.names = self.start.members
        self.by_name = dict(zip(self.names, group.members, strict=True))
        self._document = {**self.start.document, **times}
        self._on_step = on_step
        self._members: dict[str, dict[str, Any]] = {
            name: {
                **config,
                "assignors": self._assignors(name),
                "group_protocol": "classic" if self.by_name[name].classic else "consumer",
            }
            for name, config in self.start.document["members"].items()
        }

    def _assignors(self, name: str) -> list[str]:
        assignors = self.by_name[name].assignors or ((self.group.assignor,) if self.group.assignor else ())
        family = PROTOCOL_FAMILIES["eager"]
        return [assignor for assignor in assignors if assignor in family.assignors] or [family.default]

    def _restart_cost(self, way: Way, configs: Mapping[str, Mapping[str, Any]]) -> ChangeCost:
        restarts = self.restart.events(list(configs), len(self._members))
        events = [{**event, **configs[event["bounce"]]} for event in restarts]
        scenario = parse_scenario({**self._document, "members": self._members, "events": events})
        cost = simulate_cost(scenario, way, keeps_configured=True, rounds=False, on_step=self._on_step)
        held = cost.simulation.result.held
        for name, member in self._members.items():
            member.update(owned=as_lists(held.get(name, {})), **configs.get(name, {}))
        return cost

    def cooperative(self) -> MigrationPath:
        """Return the path to cooperative rebalancing: one restart adds ``cooperative-sticky``, one removes the rest."""
        if self.start.protocol == "cooperative":
            return _path("done")
        if self.group.protocol == "consumer":
            return _path("done", unsure=[_ALREADY_INCREMENTAL_TEXT])
        lists = {name: member.assignors for name, member in self.by_name.items()}
        without = [name for name in self.names if COOPERATIVE not in lists[name]]
        chosen = self.group.assignor
        unknown = f"its list is not known; {f'the group chose {chosen}' if chosen else 'nor is what the group chose'}"
        obstacles: list[MigrationObstacle] = []
        for name in without:
            reason = f"lists {', '.join(lists[name])}, without {COOPERATIVE}" if lists[name] else unknown
            obstacles.append((self.by_name[name], name, reason, 1))
        for name in self.names:
            if name not in without and len(lists[name]) > 1:
                reason = f"lists {', '.join(lists[name])}: it gives up all before it joins"
                obstacles.append((self.by_name[name], name, reason, 2 if without else 1))
        way = find_way("cooperative", self.start.protocol, self.group.assignor)
        steps: list[tuple[str, ChangeCost | None]] = []
        if without:
            added = {name: {"assignors": [COOPERATIVE, *self._assignors(name)]} for name in without}
            steps.append((_ADD_COOPERATIVE_STEP, self._restart_cost(way, added)))
        new_assignor_only = {name: {"assignors": [COOPERATIVE]} for name in self.names}
        steps.append((_ONLY_COOPERATIVE_STEP, self._restart_cost(way, new_assignor_only)))
        return _path("ready", obstacles, steps, [_VERSIONS_TEXT])

    def static(self) -> MigrationPath:
        without = [name for name in self.names if self.by_name[name].names.group_instance_id is None]
        if not without:
            return _path("done")
        obstacles = [(self.by_name[name], name, "has no group.instance.id", 1) for name in without]
        own = find_way(self.start.protocol, self.start.protocol, self.start.assignor)
        first = self._restart_cost(own, {name: {"instance_id": name} for name in without})
        after = self._restart_cost(own, {name: {} for name in self.names})
        steps = [(_INSTANCE_IDS, first), ("Every rolling restart after that", after)]
        unsure = []
        if after.simulation.result.rebalances:
            away_ms, session_ms = self.restart.down_ms, self.start.document["session_timeout_ms"]
            unsure.append(
                f"members that are away for {away_ms} ms lose their session, with a timeout of {session_ms} ms "
                "since their last heartbeat: raise session.timeout.ms (under KIP-848 group.consumer.session.timeout.ms)"
            )
        return _path("ready", obstacles, steps, unsure)

    def consumer(self) -> MigrationPath:
        """Return the migration to KIP-848: one rolling restart, which sets ``group.protocol=consumer``."""
        classic = [name for name in self.names if self.by_name[name].classic]
        if self.group.protocol == "consumer" and not classic:
            return _path("done")
        reasons = {name: self._reason_against_kip_848(self.by_name[name]) for name in classic}
        obstacles = [(self.by_name[name], name, reason, None) for name, reason in reasons.items() if reason]
        cost = self._restart_cost(find_way("consumer"), {name: {"group_protocol": "consumer"} for name in classic})
        unsure = ["neither the brokers' version nor most clients' are in any record of a group"]
        if (migrated_count := len(self.names) - len(classic)) > 0:
            unsure.append(f"{migrated_count} of {len(self.names)} members use it already: the group is half migrated")
        state = "blocked" if obstacles else "ready"
        return _path(state, obstacles, [(_BROKERS_STEP, None), (_GROUP_PROTOCOL, cost)], unsure)

    def _reason_against_kip_848(self, member: LiveMember) -> str | None:
        assignors, group = member.assignors, self.group
        if not assignors and group.assignor is not None and group.protocol == "classic":
            assignors = (group.assignor,)
        custom_assignors = [assignor for assignor in assignors if assignor not in PROTOCOL_FAMILIES["eager"].assignors]
        if custom_assignors:
            return (
                f"custom assignor {', '.join(custom_assignors)}: KIP-848 has none in clients; let every member list "
                "one of Kafka's first, or write it for the brokers (group.consumer.assignors)"
            )
        client = _CLIENT_WITHOUT_KIP_848.match(member.names.client_id or "")
        return f"{client[1]} {client[2]} does not speak KIP-848" if client else None


def recent_steps(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the latest episodes that may belong to a migration to another protocol, newest first."""
    steps = [episode for episode in episodes if episode.kind in _PAST_STEP_KINDS]
    return sorted(steps, key=lambda step: (step.opened_at, step.episode), reverse=True)[:_MAX_PAST_STEPS]
