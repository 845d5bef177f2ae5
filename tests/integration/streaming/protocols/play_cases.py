"""Random scenarios for real groups: the seed determines the clients, the protocol and the events."""

from random import Random
from typing import Any

from tests.integration.streaming.protocols.real_groups import Group
from tests.support.kafka import unique_name

#: Possible cases: protocol, assignor, static members, clients. "both" means classic and consumer members.
KINDS = (
    ("eager", "range", False, "java"),
    ("cooperative", "cooperative-sticky", False, "java"),
    ("consumer", "uniform", False, "java"),
    ("cooperative", "cooperative-sticky", True, "java"),
    ("eager", "range", False, "confluent"),
    ("consumer", "range", True, "java"),
    ("eager", "roundrobin", True, "java"),
    ("eager", "roundrobin", False, "kafka-python"),
    ("consumer", "uniform", False, "confluent"),
    ("eager", "sticky", False, "java"),
    ("both", "uniform", False, "java"),
    ("both", "range", False, "java"),
)


def case(seed: int) -> tuple[Group, dict[str, Any]]:
    """Return the group and the scenario of a seed; any twelve consecutive seeds cover all kinds of groups."""
    protocol, assignor, static, client = KINDS[seed % len(KINDS)]
    random = Random(seed)
    both = protocol == "both"
    protocol = "consumer" if both else protocol
    has_leader = protocol != "consumer" or both
    topics = {unique_name("play"): random.randint(1, 7) for _ in range(random.randint(1, 2))}
    names = [f"m{number}" for number in range(1, 5)]
    # The first member is a Java client that stays, so that the leader runs Kafka's own assignor.
    clients = {name: "java" if number == 0 else client for number, name in enumerate(names)}
    at = 0
    live: dict[str, list[str]] = {}
    events: list[dict[str, Any]] = []

    def add_event(**event: Any) -> None:
        nonlocal at
        at += 100_000
        events.append({"at": at, **event})

    def chosen() -> list[str]:
        # Python clients subscribe to all topics: their own assignors differ from Java's on unequal subscriptions.
        names = sorted(topics)
        return names if client != "java" else random.sample(names, random.randint(1, len(names)))

    def join(name: str) -> None:
        # A classic leader that lacks metadata of other members' topics fetches it first, possibly too late.
        live[name] = sorted(topics) if name == names[0] and has_leader else chosen()
        more = {"instance_id": f"i-{name}"} if static else {}
        if both:
            more["group_protocol"] = "classic" if len(live) < 2 else random.choice(("classic", "consumer"))
        add_event(join=name, topics=live[name], **more)

    for name in names[: random.randint(2, 3)]:
        join(name)
    for _ in range(random.randint(3, 5)):
        others = [name for name in live if name != names[0]]
        away = [name for name in names if name not in live]
        kinds = ["join"] * bool(away) + ["leave", "crash", *["bounce"] * (3 if both else 1)] * bool(others)
        if client == "java":
            # A classic leader that adds topics fetches metadata first, possibly too late.
            kinds += ["subscribe"] * (not has_leader or bool(others)) + ["partitions"]
        kind = random.choice(kinds)
        if kind == "join":
            join(random.choice(away))
        elif kind in ("leave", "crash"):
            name = random.choice(others)
            del live[name]
            add_event(**{kind: name})
        elif kind == "bounce":
            more = {"group_protocol": random.choice(("classic", "consumer"))} if both else {}
            add_event(bounce=random.choice(others), down_ms=1000 if static else 30_000, **more)
        elif kind == "partitions":
            name = random.choice(sorted(topics))
            topics[name] += random.randint(1, 2)
            add_event(partitions={name: topics[name]})
        else:
            name = random.choice(others if has_leader else list(live))
            subscriptions = [
                names
                for names in (sorted(topics), sorted(topics)[:1], sorted(topics)[1:])
                if names and names != sorted(live[name])
            ]
            if subscriptions:
                live[name] = random.choice(subscriptions)
                add_event(subscribe=name, topics=live[name])
    return Group(protocol, assignor, clients), {
        "topics": _initial_counts(topics, events),
        "session_timeout_ms": 6000,
        "events": events,
    }


def _initial_counts(topics: dict[str, int], events: list[dict[str, Any]]) -> dict[str, int]:
    """Return the topics' partition counts before the first event that increases them."""
    first = dict(topics)
    for name in topics:
        grown = [event["partitions"][name] for event in events if name in event.get("partitions", {})]
        if grown:
            first[name] = min(grown) - 1
    return first
