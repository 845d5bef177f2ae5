"""Writes the diagrams and figures of docs/explanation/protocols.md from the code, or checks them with ``--check``.

Run ``python scripts/protocols.py`` after a change of a protocol machine; a test runs ``--check``. The rest of the page
is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from streaming.protocols import zookeeper
from streaming.protocols.classic import machine as classic
from streaming.protocols.classic.coordinator import join_group, sync_group
from streaming.protocols.classic.step import Assigned, ClassicPhase, JoinGroup, RebalanceInProgress, SyncGroup
from streaming.protocols.consumer import machine as consumer
from streaming.protocols.consumer.coordinator import heartbeat
from streaming.protocols.consumer.step import ConsumerPhase, Heartbeat, Reconciliation
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.protocols.machine import PROCESS_TRANSITIONS
from streaming.protocols.vocabulary import Stage, Table, rows
from streaming.protocols.zookeeper import ZooKeeperPhase
from streaming.simulation.builtin_scenarios import BUILTIN_SCENARIOS, load_builtin_scenario
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import parse_scenario

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "protocols.md"
_COMPARED_SCENARIOS = ("rolling-restart", "deploy-static", "scale-out", "crash", "flapping", "partition-growth")
_EVENT_DELAY_MS = 60_000


def diagram(table: Table, first: StrEnum) -> str:
    """Return a transition table as a Mermaid state diagram: an arrow, labelled with its events, per change of phase."""
    labels_by_transition: dict[tuple[str, str], dict[str, None]] = {}
    for (phase, event), row in table.items():
        for next_phase in row.to:
            if next_phase is not phase:
                text = event.__name__ + (f" ({row.label})" if row.label else "")
                labels_by_transition.setdefault((phase.value, next_phase.value), {})[text] = None
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first.value}"]
    # A colon or semicolon in a label would end the label.
    lines += [
        f"    {source} --> {next_phase}: {', '.join(texts).replace(':', ' –').replace(';', ',')}"
        for (source, next_phase), texts in labels_by_transition.items()
    ]
    return "\n".join([*lines, "```"])


def _markdown_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    alignment = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, tuple(alignment), *rows))


#: ``(title, events after a minute)`` for c1 (the leader), c2 and c3, all static.
_STATIC_MEMBER_EVENTS: tuple[tuple[str, list[dict[str, Any]]], ...] = (
    ("a follower restarts within the session timeout", [{"bounce": "c2", "down_ms": 40_000}]),
    ("the leader restarts within the session timeout", [{"bounce": "c1", "down_ms": 40_000}]),
    ("a member stays away past it and comes back: out, then in", [{"bounce": "c2", "down_ms": 120_000}]),
    ("a member crashes and does not come back", [{"crash": "c2"}]),
    ("a member is told to leave (LeaveGroup, epoch −1)", [{"leave": "c2"}]),
    ("a new member joins", [{"join": "c4", "instance_id": "i-4"}]),
    ("a second process with the instance id of a member", [{"join": "c4", "instance_id": "i-2"}]),
    ("a follower subscribes to other topics", [{"subscribe": "c2", "topics": ["orders"]}]),
    ("a topic gets more partitions: the leader rejoins", [{"partitions": {"orders": 12}}]),
    ("a pause shorter than the session timeout", [{"pause": "c2", "down_ms": 30_000}]),
    ("a pause longer than the session timeout: out, then in", [{"pause": "c2", "down_ms": 70_000}]),
)


def static_member_table() -> str:
    """Return the Markdown table of rebalances of a static group."""
    protocols = ("eager", "cooperative", "consumer")
    rows = []
    for sentence, events in _STATIC_MEMBER_EVENTS:
        document = {
            "topics": {"orders": 9, "refunds": 3},
            "events": [
                *({"at": 0, "join": f"c{n}", "instance_id": f"i-{n}"} for n in (1, 2, 3)),
                *({"at": _EVENT_DELAY_MS, **event} for event in events),
            ],
        }
        counts = []
        for protocol in protocols:
            records = run_scenario(parse_scenario(document), protocol).result.rounds
            counts.append(str(sum(record.round == 1 and record.at > _EVENT_DELAY_MS for record in records)))
        rows.append((sentence, *counts))
    return _markdown_table(("rebalances when", *protocols), rows)


def comparison_table() -> str:
    """Return a Markdown comparison of the built-in scenarios under all protocols."""
    parts = []
    for name in _COMPARED_SCENARIOS:
        rows = []
        for protocol in PROTOCOL_FAMILIES:
            run = run_scenario(load_builtin_scenario(name), protocol)
            figures = run.result
            rows.append(
                (
                    f"{run.protocol} ({run.assignor})",
                    *map(str, (figures.rebalances, figures.round_count, sum(figures.requests.values()), figures.moved)),
                    f"{run.unavailable_ms / 1000:.1f}",
                    f"{figures.longest_gap_ms / 1000:.1f}",
                )
            )
        scenario = BUILTIN_SCENARIOS[name]
        head = (name, "rebalances", "rounds", "requests", "moved", "down p·s", "gap s")
        parts.append(
            f"`simulate {name}`: {scenario.description} ({scenario.members} members, "
            f"{scenario.partitions} partitions)\n\n" + _markdown_table(head, rows)
        )
    return "\n\n".join(parts)


#: Meaning of the group's own events for a process.
RECONCILIATION_TABLE: Table = {
    **rows((Stage.STARTING,), JoinGroup, join_group, (Stage.JOINING,), "sent"),
    **rows((Stage.STABLE, Stage.SYNCING), RebalanceInProgress, classic.rebalance_in_progress, (Stage.JOINING,)),
    **rows((Stage.JOINING,), SyncGroup, sync_group, (Stage.SYNCING,), "JoinGroup answered"),
    **rows((Stage.SYNCING,), Assigned, classic.assigned, (Stage.STABLE, Stage.JOINING), "SyncGroup answered"),
}

_STABLE, _UNREVOKED, _UNRELEASED = Reconciliation
#: Reconciliation of a member (``CurrentAssignmentBuilder``).
RECONCILIATION: Table = {
    **rows((_STABLE,), Heartbeat, heartbeat, (_STABLE, _UNREVOKED, _UNRELEASED), "new target"),
    **rows((_UNREVOKED,), Heartbeat, heartbeat, (_UNREVOKED, _STABLE, _UNRELEASED), "revoked"),
    **rows((_UNRELEASED,), Heartbeat, heartbeat, (_UNRELEASED, _STABLE, _UNREVOKED), "released"),
}

GENERATED_BLOCKS: Mapping[str, Callable[[], str]] = {
    "process": lambda: diagram({**PROCESS_TRANSITIONS, **RECONCILIATION_TABLE}, Stage.STARTING),
    "zookeeper": lambda: diagram(zookeeper.GROUP_TABLE, ZooKeeperPhase.EMPTY),
    "eager-v1": lambda: diagram(classic.COORDINATOR_V1_TABLE, ClassicPhase.EMPTY),
    "eager": lambda: diagram(classic.COORDINATOR_TABLE, ClassicPhase.EMPTY),
    "static": static_member_table,
    "consumer": lambda: (
        "The group:\n\n"
        + diagram(consumer.COORDINATOR, ConsumerPhase.EMPTY)
        + "\n\nEach member, in the coordinator's eyes:\n\n"
        + diagram(RECONCILIATION, Reconciliation.STABLE)
    ),
    "comparison": comparison_table,
}


def page_text(page: str) -> str:
    """Return the page with every generated block replaced by current content."""
    for name, block in GENERATED_BLOCKS.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in page or end not in page:
            sys.exit(f"{PAGE.name}: {begin} … {end} is missing")
        text = f"{begin}\n{block()}\n{end}"
        page = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, text=text: text, page, flags=re.DOTALL)
    return page


def main() -> None:
    """Write docs/explanation/protocols.md from the code; with ``--check`` exit 1 if the page differs from the code."""
    page = PAGE.read_text(encoding="utf-8")
    now = page_text(page)
    if "--check" not in sys.argv:
        PAGE.write_text(now, encoding="utf-8")
    elif page != now:
        sys.exit("docs/explanation/protocols.md: not what the code says; run python scripts/protocols.py")


if __name__ == "__main__":
    main()
