"""A live group as the start of a scenario, with assumptions in place of unrecorded data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from assignors.errors import BadInput
from streaming.protocols.families import FAMILIES
from streaming.simulation.live_group import LiveGroup

#: Defaults of Kafka's clients and brokers for unrecorded timeouts, ms.
_SESSION_MS: Final = 45_000
_REBALANCE_MS: Final = 300_000

#: Kinds of groups that can't be simulated from their current state, and why.
_REFUSED: Final = {
    "connect": (
        "Connect's leader places connectors and tasks by a configuration that no record of the group has; "
        "`rebalance-monitor simulate SCENARIO --protocol connect` plays workers"
    ),
    "streams": "the cost of moving a Kafka Streams task depends on its state, which no record contains",
    "share": "members of a share group consume the same partitions side by side: none waits for another to let go",
}


class NoForecast(BadInput):
    """The group can't be forecast; the message says why."""


class Baseline(NamedTuple):
    """A live group as the start of a scenario.

    ``way``: name of the group's current :class:`~streaming.simulation.forecast.Way` to rebalance; ``protocol``: name
    of its protocol; ``unsure``: why a forecast can't be exact, as lines of text.
    """

    document: dict[str, Any]
    way: str
    protocol: str
    assignor: str | None
    unsure: tuple[str, ...] = ()

    @property
    def members(self) -> list[str]:
        """Return the members' names, in the order of the JoinGroup response."""
        return list(self.document["members"])


def baseline_of(group: LiveGroup) -> Baseline:
    """Return the scenario from which a change of this group starts."""
    if group.kind in _REFUSED:
        raise NoForecast(f"group {group.group_id}: {_REFUSED[group.kind]}")
    if not group.members:
        raise NoForecast(f"group {group.group_id}: it has no members now, so there is nothing to forecast from")
    topics, unsure = _topics(group)
    if not topics:
        raise NoForecast(
            f"group {group.group_id}: of no topic that it subscribes to the partitions are known; "
            "`rebalance-monitor collect` tells them"
        )
    members, doubled = _members(group, topics)
    protocol, unlike = _protocol(group)
    static = sum(1 for member in group.members if member.names.group_instance_id is not None)
    all_static = static == len(group.members) and protocol != "consumer"
    times, untold = _times(group)
    return Baseline(
        document={"topics": topics, "members": members, "generation": max(group.number, 1), **times},
        way="static" if all_static else protocol,
        protocol=protocol,
        assignor=group.assignor,
        unsure=(
            *group.unknown,
            *unsure,
            *doubled,
            *unlike,
            *untold,
            *([_STATIC.format(static, len(group.members))] if static else []),
        ),
    )


_STATIC: Final = "{} of {} members have an instance id (group.instance.id): they keep it under every protocol here"


def _topics(group: LiveGroup) -> tuple[dict[str, Any], list[str]]:
    """Return topics as scenario entries. A topic of unknown size gets the partitions that members own."""
    topics: dict[str, Any] = {
        name: {"partitions": topic.partitions, "racks": topic.racks and [list(racks) for racks in topic.racks]}
        | ({"topic_id": topic.topic_id} if topic.topic_id else {})
        for name, topic in group.topics.items()
    }
    for member in group.members:
        for topic, partitions in member.owned.items():
            entry = topics.setdefault(topic, {"partitions": 0})
            if partitions and partitions[-1] >= entry["partitions"]:
                entry |= {"partitions": partitions[-1] + 1, "racks": None}
    unnamed = [name for name, entry in topics.items() if "topic_id" not in entry]
    if unnamed and len(topics) > 1:
        return topics, [
            "topic ids are not known: under KIP-848 members may get other partitions than forecast, not more"
        ]
    return topics, []


def _members(group: LiveGroup, topics: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    names = scenario_names(group.names, group.names)
    taken: set[tuple[str, int]] = set()
    doubled = 0
    members = {}
    for member in group.members:
        owned: dict[str, list[int]] = {}
        for topic, partitions in member.owned.items():
            free = [partition for partition in partitions if (topic, partition) not in taken]
            doubled += len(partitions) - len(free)
            taken.update((topic, partition) for partition in free)
            owned[topic] = free
        members[names[member.member_id]] = {
            "owned": owned,
            "topics": [topic for topic in dict.fromkeys((*member.topics, *member.owned)) if topic in topics],
            "instance_id": member.names.group_instance_id,
            "rack_id": member.rack_id,
            "member_id": member.member_id,
        }
    if doubled:
        return members, [f"{doubled} partitions have two owners now, in the middle of a rebalance: the first is taken"]
    return members, []


def scenario_names(names: Mapping[str, str], members: Iterable[str], *, taken: Iterable[str] = ()) -> dict[str, str]:
    """Return each member's name in a scenario: printable, without ``~``, unique.

    ``names``: display names by member id. ``taken``: names of other members.
    """
    others, unique_names = set(taken), {}
    for member_id in members:
        called = names.get(member_id, member_id)
        plain = "".join(letter if letter.isprintable() and letter != "~" else "-" for letter in called)
        name, number = plain, 1
        while name in others:
            number += 1
            name = f"{plain} {number}"
        others.add(name)
        unique_names[member_id] = name
    return unique_names


def _protocol(group: LiveGroup) -> tuple[str, list[str]]:
    if group.protocol == "consumer":
        classic = sum(member.classic for member in group.members)
        lines = [f"{classic} of {len(group.members)} members still speak the classic protocol: here none does"]
        return "consumer", [*(lines if classic else []), *_custom(group, "consumer")]
    lists = [member.assignors for member in group.members if member.assignors]
    cooperative = group.assignor == "cooperative-sticky" and all(
        set(assignors) == {"cooperative-sticky"} for assignors in lists
    )
    if group.assignor == "cooperative-sticky" and len(lists) < len(group.members):
        said = "members' assignor lists are not known: the group is taken to be cooperative, as its assignor is"
        return ("cooperative", [said]) if cooperative else ("eager", [])
    return ("cooperative", []) if cooperative else ("eager", _custom(group, "eager"))


def _custom(group: LiveGroup, protocol: str) -> list[str]:
    family = FAMILIES[protocol]
    if group.assignor in family.carries:
        return []
    if group.assignor is None:
        return [f"the group's assignor is not known: {family.default} is taken"]
    return [
        f"custom assignor {group.assignor}: what it assigns can't be computed; {family.default} stands in its place"
    ]


def _times(group: LiveGroup) -> tuple[dict[str, int], list[str]]:
    """Return the group's timeouts, the longest of its members' or the defaults, and a line for each assumption."""
    times, unsure = {}, []
    broker = "the brokers'" if group.protocol == "consumer" else "the client's"
    for name, default, whose in (("session", _SESSION_MS, broker), ("rebalance", _REBALANCE_MS, "the client's")):
        field = f"{name}_timeout_ms"
        timeouts = sorted({timeout for member in group.members if (timeout := getattr(member, field))})
        if not timeouts:
            unsure.append(f"no record tells the {name} timeout: {whose} default is taken, {default // 1000} s")
        elif name == "session" and len(timeouts) > 1:
            unsure.append(
                f"members' session timeouts differ ({timeouts[0]} to {timeouts[-1]} ms): the longest is taken for all"
            )
        times[field] = max(timeouts, default=default)
    return times, unsure
