"""Advice for two real groups: one whose members are killed at each deploy, and one whose consumers close cleanly."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from streaming.advice.history import GroupHistory
from streaming.monitor.outputs import DiffOutput
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode
from streaming.simulation.live_group import MembershipLog
from tests.integration.streaming.collect.collector_process import CollectorProcess, topic_with_writer
from tests.support.advice import rules
from tests.support.diff_episodes import QuietNote, updates
from tests.support.histories import assignments, diffs, play
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.members import EAGER, Member, share_all_partitions

pytestmark = [pytest.mark.broker, pytest.mark.full]

PARTITIONS = 6
OLD_PODS = [f"pay-7d9f5b6c8d-bcdf{end}" for end in "245"]
NEW_PODS = [f"pay-86c4d7b9f5-xzvw{end}" for end in "245"]


def deploy(stack: ExitStack, servers: str, group: str, topic: str, *, is_killed: bool) -> int:
    """Replace three pods one after the other; return the downtime in ms, summed over all partitions."""
    options = EAGER | {"session_timeout_ms": 6000}
    pods: list[Member] = []
    changes: list[tuple[int, str, int]] = []  # time, member, and the number of partitions that it owns from then on
    for name in OLD_PODS:
        pods.append(stack.enter_context(Member(servers, group, name, [topic], **options)))
        eventually(lambda: share_all_partitions(pods, PARTITIONS))
    all_pods = list(pods)
    for name in NEW_PODS:
        former = pods.pop(0)
        if is_killed:
            former.crash()
            changes.append((time.time_ns() // 1_000_000, former.name, 0))
        else:
            former.close()
        pods.append(stack.enter_context(Member(servers, group, name, [topic], **options)))
        all_pods.append(pods[-1])
        eventually(lambda: share_all_partitions(pods, PARTITIONS))
    for member in all_pods:
        changes += ((line["at"], member.name, sum(map(len, line["owned"].values()))) for line in member.lines)
    return downtime_ms(sorted(changes))


def scale_in(stack: ExitStack, servers: str, group: str, topic: str) -> None:
    """Kill one of two static members permanently."""
    options = EAGER | {"session_timeout_ms": 6000}
    names = ("stays", "goes")
    pods = [stack.enter_context(Member(servers, group, name, [topic], instance_id=name, **options)) for name in names]
    eventually(lambda: share_all_partitions(pods, PARTITIONS))
    pods[1].crash()
    eventually(lambda: share_all_partitions(pods[:1], PARTITIONS))


def downtime_ms(changes: list[tuple[int, str, int]]) -> int:
    """Return the time between complete assignments without a consumer, summed over the partitions, ms."""
    owned: dict[str, int] = {}
    waits: list[int] = []
    last = 0
    for at, name, partitions in changes:
        unowned_count = PARTITIONS - sum(owned.values())
        if waits or not unowned_count:
            waits.append((at - last) * unowned_count)
        owned[name], last = partitions, at
        if sum(owned.values()) == PARTITIONS:
            end = len(waits)
    return sum(waits[:end])


def history(collecting: CollectorProcess, group: str) -> GroupHistory:
    """Return the episodes, rounds and assignment of the group, from the group's start until after the deploy."""
    events, log = collecting.events(group), MembershipLog(group)
    for event in events:
        log.feed(event)
    _, outputs = play(events)
    ids = [output.id for output in outputs if isinstance(output, DiffOutput)]
    rounds = list(zip(ids, diffs(outputs), strict=True))
    start = next(place for place, (_, diff) in enumerate(rounds) if replaces(diff))
    notes = [*rounds[:start], QuietNote(ids[start - 1]), *rounds[start:], QuietNote(ids[-1])]
    episodes: dict[int, Episode] = {episode.episode: episode for episode in updates(group, notes)}
    by_id = dict(rounds)
    return GroupHistory(
        group,
        rounds[-1][1].timestamp + 1,
        list(episodes.values()),
        assignments(outputs)[-1].assignment,
        live=log.group(None),
        rounds={number: [by_id[ce_id] for ce_id in episode.rounds] for number, episode in episodes.items()},
    )


def replaces(diff: Diff) -> bool:
    return any(member.client_id in NEW_PODS or member.present is False for member in diff.members.values())


def test_forecast_savings_hold_for_killed_and_closed_members(broker: Kafka, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    killed_group, closed, scaled_group = unique_name("killed"), unique_name("closed"), unique_name("held")
    with ExitStack() as stack:
        topic = stack.enter_context(topic_with_writer(servers))
        old_downtime_ms = deploy(stack, servers, killed_group, topic, is_killed=True)
        new_downtime_ms = deploy(stack, servers, closed, topic, is_killed=False)
        scale_in(stack, servers, scaled_group, topic)
        (tmp_path / "server.log").write_text(broker.log_text())
        log = ["--coordinator-log", str(tmp_path / "server.log")]
        collecting = stack.enter_context(CollectorProcess(servers, f"{killed_group}|{closed}|{scaled_group}", *log))
        for group in (killed_group, closed):
            eventually(lambda: sorted(collecting.members(group) or {}) == NEW_PODS)  # noqa: B023 - called at once
        eventually(lambda: list(collecting.members(scaled_group) or ()) == ["stays"])
        advice_for_killed, advice_for_closed = (
            rules(history(collecting, killed_group)),
            rules(history(collecting, closed)),
        )
        advice_for_scaled = rules(history(collecting, scaled_group))

    assert "missing-leave" not in advice_for_closed
    assert "static-slot-held" not in {*advice_for_killed, *advice_for_closed}
    assert advice_for_scaled["static-slot-held"].evidence[0].figures["instanceIds"] == ["goes"]
    advice_item = advice_for_killed["missing-leave"]
    assert advice_item.severity == "warning"
    assert advice_item.evidence[0].figures["restarts"] == 3
    assert advice_item.evidence[0].text.startswith("3 restarts without LeaveGroup in episode 2 (pay-86c4d7b9f5-xzvw2, ")
    assert advice_item.saving is not None
    assert advice_item.saving.downtime_ms is not None
    before, after = advice_item.saving.downtime_ms
    # The forecast has no data on how early successors joined, or on the clients' short heartbeat intervals.
    assert before <= old_downtime_ms
    assert new_downtime_ms <= after
