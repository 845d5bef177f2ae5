"""The collector on a real broker: what it publishes is what the consumers' own callbacks report."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from assignors.java import string_hash
from streaming.kafka.broker import EmbeddedBroker
from streaming.wire.events import GroupDeleted, GroupObserved, PartitionsChanged
from tests.support.collecting import Collecting, owned_by, written_topic
from tests.support.command import Running
from tests.support.histories import diffs, play
from tests.support.kafka import PROPERTIES, Kafka, eventually, unique
from tests.support.members import Member, Share
from tests.support.offsets_topic import assignment, group_key, subscription
from tests.support.raw_leader import RawLeader

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.broker, pytest.mark.cluster]

PROPERTIES_OF_ALL = ("auto.commit.interval.ms=200", "topic.metadata.refresh.interval.ms=1000")
CLASSIC = {"properties": (*PROPERTIES_OF_ALL, "heartbeat.interval.ms=200")}
EAGER = CLASSIC | {"protocol": "eager"}
COOPERATIVE = CLASSIC | {"protocol": "cooperative"}
CONSUMER = {"properties": PROPERTIES_OF_ALL, "protocol": "consumer"}
ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky"}


@pytest.fixture
def topic(broker: Kafka) -> Iterator[str]:
    with written_topic(broker.bootstrap_servers) as name:
        yield name


def in_order(expected: list[Share], reports: list[Share]) -> bool:
    """Whether ``reports`` has the expected states in this order, maybe with others between."""
    left = iter(reports)
    return all(state in left for state in expected)


def distinct(states: list[Share | None]) -> list[Share]:
    """Without None and repeats in a row."""
    found: list[Share] = []
    for state in states:
        if state is not None and (not found or found[-1] != state):
            found.append(state)
    return found


def spread(members: list[Member], partitions: int) -> bool:
    """Whether the members own all partitions, each some."""
    shares = [member.owned for member in members]
    given = [(topic, p) for share in shares for topic, numbers in share.items() for p in numbers]
    return all(shares) and len(set(given)) == len(given) == partitions


def consecutive(views: list[GroupObserved]) -> list[int]:
    return [view.generation for view in views if view.generation is not None]


@pytest.mark.parametrize(
    ("config", "static"),
    [(EAGER, False), (COOPERATIVE, False), (COOPERATIVE, True), (CONSUMER, False), (CONSUMER, True)],
    ids=["eager", "cooperative", "static", "consumer", "consumer-static"],
)
def test_each_generation_is_what_the_callbacks_report(
    broker: Kafka, topic: str, config: dict[str, Any], static: bool
) -> None:
    group, servers = unique("group"), broker.bootstrap_servers

    def member(name: str) -> Member:
        instance = f"{group}-{name}" if static else None
        return Member(servers, group, name, [topic], **config, instance_id=instance)

    with Collecting(servers, group) as collecting:
        with member("a") as a:
            eventually(lambda: spread([a], 6))
            b = member("b")
            eventually(lambda: spread([a, b], 6))
            c = member("c")
            eventually(lambda: spread([a, b, c], 6))
            b.close()
            if static:
                b = member("b")
                eventually(lambda: spread([a, b, c], 6))
            else:
                eventually(lambda: spread([a, c], 6))
            final = {one.name: one.owned for one in ([a, b, c] if static else [a, c])}
            eventually(lambda: collecting.members(group) == final, timeout=15)
            views = collecting.views(group)
            if static:
                b.close()
            c.close()
        assert collecting.stop() == 0

    for one in (a, c):
        assert in_order(distinct([owned_by(view, one.name) for view in views]), [{}, *one.reports])
    ids = [event.id for event in collecting.events(group)]
    assert len(ids) == len(set(ids))
    if config is not CONSUMER:
        generations = consecutive(views)
        # A static member that comes back is written under the same generation again.
        assert sorted(set(generations)) == list(range(1, max(generations) + 1))
        assert static or len(generations) == len(set(generations))
        assert {view.protocol for view in views} == {ASSIGNORS[config["protocol"]]}
    else:
        assert [view.group_epoch for view in views] == sorted(view.group_epoch or 0 for view in views)


def test_kafka_python_members_generation_by_generation(broker: Kafka, topic: str) -> None:
    group, servers = unique("group"), broker.bootstrap_servers
    config = {"client": "kafka-python"}
    with Collecting(servers, group) as collecting:
        with Member(servers, group, "a", [topic], **config) as a:
            eventually(lambda: any(map(len, a.generations.values())))
            with Member(servers, group, "b", [topic], **config) as b:
                eventually(lambda: any(map(len, b.generations.values())))
            eventually(lambda: sum(map(len, a.generations[max(a.generations)].values())) == 6)
            last = max(a.generations)
            eventually(lambda: last in consecutive(collecting.views(group)), timeout=15)
        assert collecting.stop() == 0

    views = {view.generation: view for view in collecting.views(group)}
    for one in (a, b):
        seen = {number: owned_by(views[number], one.name) for number in one.generations}
        assert seen == one.generations


def test_why_from_the_coordinator_s_log_and_from_commits(broker: Kafka, topic: str, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    classic, modern = unique("classic"), unique("consumer")
    with ExitStack() as stack:
        for group, config in ((classic, COOPERATIVE | {"session_timeout_ms": 1500}), (modern, CONSUMER)):
            stay = stack.enter_context(Member(servers, group, "stay", [topic], **config))
            eventually(lambda: spread([stay], 6))  # noqa: B023 - called at once
            # One by one: the coordinator logs no reason for who joins while a rebalance is on its way.
            leave = Member(servers, group, "leave", [topic], **config)
            eventually(lambda: spread([stay, leave], 6))  # noqa: B023 - called at once
            crash = stack.enter_context(Member(servers, group, "crash", [topic], **config))
            eventually(lambda: crash.owned)  # noqa: B023 - called at once
            threading.Event().wait(0.5)  # some commits of its own
            leave.close()
            threading.Event().wait(0.5)
            crash.crash()
            eventually(lambda: spread([stay], 6))  # noqa: B023 - called at once
        (tmp_path / "server.log").write_text(broker.log_text())
        pattern = f"{classic}|{modern}"
        logged = stack.enter_context(
            Collecting(servers, pattern, "--coordinator-log", str(tmp_path / "server.log"))
        )
        inferred = stack.enter_context(Collecting(servers, pattern))
        for collecting in (logged, inferred):
            for group in (classic, modern):
                eventually(lambda: [*(collecting.members(group) or ())] == ["stay"])  # noqa: B023 - called at once

    def causes(collecting: Collecting, group: str) -> dict[str, set[str | None]]:
        """Client id → the kinds of evidence that name it."""
        clients: dict[str, str] = {}
        found: dict[str, set[str | None]] = {}
        for view in collecting.views(group):
            clients |= {member.member_id: member.client_id or "" for member in view.members}
            for item in view.evidence:
                for member_id in item.member_ids:
                    found.setdefault(clients[member_id], set()).add(item.kind)
        return found

    for group in (classic, modern):
        told = causes(logged, group)
        assert {"member.joined", "member.left"} <= told["leave"]
        assert {"member.joined", "member.fenced"} <= told["crash"]
        assert "member.fenced" not in told["leave"]
    assert causes(inferred, classic) == {"leave": {"member.left"}, "crash": {"member.fenced"}}
    # Sessions may be set down to 1 s on this broker, heartbeats 15 s apart: commits prove nothing.
    assert causes(inferred, modern) == {"leave": {"group.observed"}, "crash": {"group.observed"}}


def test_a_leave_under_kip_848_is_proven_where_the_brokers_bound_sessions() -> None:
    group = unique("group")
    # No session can be set to less than 3 s, no heartbeats to more than 500 ms apart.
    bounds = {
        "group.consumer.min.session.timeout.ms": "3000",
        "group.consumer.max.heartbeat.interval.ms": "500",
    }
    with ExitStack() as stack:
        servers = stack.enter_context(EmbeddedBroker(properties=PROPERTIES | bounds)).bootstrap_servers
        topic = stack.enter_context(written_topic(servers))
        collecting = stack.enter_context(Collecting(servers, group))
        stay = stack.enter_context(Member(servers, group, "stay", [topic], **CONSUMER))
        eventually(lambda: spread([stay], 6))
        leave = Member(servers, group, "leave", [topic], **CONSUMER)
        eventually(lambda: spread([stay, leave], 6))
        eventually(lambda: len(collecting.members(group) or ()) == 2)
        threading.Event().wait(1)  # some commits of its own
        leave.close()
        eventually(lambda: spread([stay], 6))
        crash = Member(servers, group, "crash", [topic], **CONSUMER)
        eventually(lambda: spread([stay, crash], 6))
        threading.Event().wait(1)
        crash.crash()
        eventually(lambda: spread([stay], 6))
        eventually(lambda: [*(collecting.members(group) or ())] == ["stay"])
        assert collecting.stop() == 0
        ends = [item for view in collecting.views(group) for item in view.evidence]

    assert [item.kind for item in ends] == ["member.left", "group.observed"]
    assert "can't have run out within 2500 ms" in ends[0].reason


def test_one_join_under_kip_848_is_three_rounds_of_one_rebalance(
    broker: Kafka, topic: str, tmp_path: Path
) -> None:
    group, servers, log = unique("group"), broker.bootstrap_servers, tmp_path / "server.log"
    with Member(servers, group, "a", [topic], **CONSUMER) as a:
        eventually(lambda: spread([a], 6))
        with Member(servers, group, "b", [topic], **CONSUMER) as b:
            eventually(lambda: spread([a, b], 6))
            final = {one.name: one.owned for one in (a, b)}
            log.write_text(broker.log_text())
            with Collecting(servers, group, "--coordinator-log", str(log)) as collecting:
                eventually(lambda: collecting.members(group) == final)
                assert collecting.stop() == 0

    views = collecting.views(group)
    epoch = views[-1].group_epoch
    steps = [view for view in views if view.group_epoch == epoch]
    assert all([item.kind for item in step.evidence] == ["member.joined"] for step in steps)
    rounds = [diff for diff in diffs(play(collecting.events(group))[1]) if diff.group_epoch == epoch]
    [b_id] = [member.member_id for member in views[-1].members if member.client_id == "b"]
    assert [(diff.round, diff.cause.kind, diff.cause.member_ids) for diff in rounds] == [
        (number, "member.joined", [b_id]) for number in (1, 2, 3)
    ]


def test_partitions_that_are_added_and_a_group_that_is_deleted(broker: Kafka, topic: str) -> None:
    group, servers = unique("group"), broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    with Collecting(servers, group) as collecting:
        with Member(servers, group, "a", [topic], **COOPERATIVE) as a:
            eventually(lambda: spread([a], 6) and collecting.members(group))
            admin.create_partitions([NewPartitions(topic, 8)])[topic].result()
            eventually(lambda: spread([a], 8))
        eventually(lambda: collecting.members(group) == {})
        admin.delete_consumer_groups([group])[group].result()
        eventually(lambda: isinstance(collecting.events(group)[-1].data, GroupDeleted))
        assert collecting.stop() == 0

    events = collecting.events(group)
    counts = [e.data.topics[topic].partitions for e in events if isinstance(e.data, PartitionsChanged)]
    assert counts == [6, 8]
    assert isinstance(events[0].data, PartitionsChanged)
    assert events[0].data.topics[topic].topic_id


def test_a_truncated_value_goes_to_the_dead_letters_and_the_collector_goes_on() -> None:
    group = unique("group")
    key, value = b"\x00\x02\x00\x03bad", b"\x00\x03\x00\x08consumer\x00\x00"
    with ExitStack() as stack:
        # A broker of its own: what the coordinator did not write itself stops it from using that partition.
        servers = stack.enter_context(EmbeddedBroker(properties=PROPERTIES)).bootstrap_servers
        topic = stack.enter_context(written_topic(servers))
        collecting = stack.enter_context(Collecting(servers, f"{group}|bad"))
        own = collecting.settings.topics.prefix + collecting.settings.collect.group_id
        # GroupCoordinatorService.partitionFor: Utils.abs, not a mask.
        used = {abs(string_hash(name)) % 4 for name in (group, own)}
        unused = next(number for number in range(4) if number not in used)
        a = stack.enter_context(Member(servers, group, "a", [topic], **EAGER))
        eventually(lambda: spread([a], 6) and collecting.members(group))
        # Only under this name does a broker let a client write to an internal topic.
        producer = Producer({"bootstrap.servers": servers, "client.id": "__admin_client"})
        for one in (b"\x00\x02\x00\x05other", key):  # the other group is not asked for
            producer.produce("__consumer_offsets", key=one, value=value, partition=unused)
        assert producer.flush(10) == 0
        [letter] = eventually(lambda: collecting.read(collecting.settings.topics.dead_letters))
        b = stack.enter_context(Member(servers, group, "b", [topic], **EAGER))
        eventually(lambda: spread([a, b], 6))
        eventually(lambda: len(collecting.members(group) or ()) == 2)
        assert collecting.stop() == 0

    headers = dict(letter.headers())
    assert (letter.key(), letter.value()) == (key, value)
    assert headers["dlt_exception"] == b"MalformedRecord"
    assert headers["dlt_message"].startswith(b"GroupMetadataValue.generation: the value ends after 14 bytes")
    assert headers["dlt_topic"] == b"__consumer_offsets"
    assert int(headers["dlt_partition"]) == unused


#: What was seen: a leader that sends null in place of partitions.
NULL_PARTITIONS = bytes.fromhex("0000 00000001 0002") + b"t0" + bytes.fromhex("ffffffff ffffffff")


def test_what_a_leader_sends_costs_its_own_record_alone_also_after_a_restart(
    broker: Kafka, topic: str
) -> None:
    servers, bad, good = broker.bootstrap_servers, unique("bad"), unique("good")
    with (
        RawLeader(servers, bad) as leader,
        Collecting(servers, f"{bad}|{good}") as collecting,
        Collecting(servers, ".*", "--exclude-group", f"{bad}|(?!{good}).*") as excluding,
    ):
        dead = collecting.settings.topics.dead_letters
        with Member(servers, good, "a", [topic], **EAGER) as a:
            assert leader.generation(subscription([topic]), NULL_PARTITIONS) == 1
            [letter] = eventually(lambda: collecting.read(dead))
            eventually(lambda: spread([a], 6) and collecting.members(good))
            assert leader.generation(subscription([topic]), assignment({topic: [0, 1]})) == 2
            eventually(lambda: consecutive(collecting.views(bad)) == [2])
            for one in (collecting, excluding):
                eventually(lambda: one.members(good) == {"a": a.owned})  # noqa: B023 - called at once
                assert one.stop() == 0
                one.start()
            assert leader.generation(subscription([topic]), b"\xff\xff") == 3
            assert leader.generation(subscription([topic]), assignment({topic: [2]})) == 4
            eventually(lambda: consecutive(collecting.views(bad)) == [2, 4])
            leader.leave()
        for one in (collecting, excluding):
            eventually(lambda: one.members(good) == {})  # noqa: B023 - called at once
            assert one.stop() == 0

    reasons = [dict(message.headers())["dlt_message"] for message in collecting.read(dead)]
    assert [reason.partition(b": ")[2] for reason in reasons] == [
        b"assignedPartitions.partitions: null",
        b"version: -1 is below 0",
    ]
    assert letter.key() == group_key(bad)
    assert NULL_PARTITIONS in letter.value()
    assert excluding.read(excluding.settings.topics.dead_letters) == []
    assert {event.data.group_id for event in excluding.events()} == {good}


def test_a_view_that_is_longer_than_its_topic_takes_is_a_dead_letter(broker: Kafka) -> None:
    servers, group = broker.bootstrap_servers, unique("group")
    with RawLeader(servers, group, 60_000) as leader, Collecting(servers, group) as collecting:
        membership = collecting.settings.topics.membership
        assert leader.generation(b"", assignment({"t": [0]})) == 1
        eventually(lambda: consecutive(collecting.views(group)) == [1])
        # Smaller while the collector runs: it asks again when the topic refuses.
        limit = ConfigEntry("max.message.bytes", "20000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, membership, incremental_configs=[limit])
        admin = AdminClient({"bootstrap.servers": servers})
        admin.incremental_alter_configs([resource])[resource].result()
        # Noise, as lz4 would make less of what is regular.
        noise = random.Random(7).sample(range(2**31), 20_000)
        assert leader.generation(b"", assignment({"t": noise})) == 2
        [letter] = eventually(lambda: collecting.read(collecting.settings.topics.dead_letters), timeout=60)
        assert leader.generation(b"", assignment({"t": [1]})) == 3
        eventually(lambda: consecutive(collecting.views(group)) == [1, 3])
        assert collecting.stop() == 0

    headers = dict(letter.headers())
    assert headers["dlt_exception"] == b"RecordTooLarge"
    assert headers["dlt_message"].endswith(f"max.message.bytes of {membership} is 20000".encode())
    assert letter.key() == group_key(group)


def test_a_group_deleted_and_made_again_while_the_collector_is_stopped_is_told_its_counts_again(
    broker: Kafka, topic: str
) -> None:
    servers, group = broker.bootstrap_servers, unique("group")
    admin = AdminClient({"bootstrap.servers": servers})

    def kinds() -> list[str]:
        return [event.type for event in collecting.events(group)]

    with Collecting(servers, group) as collecting:
        with Member(servers, group, "a", [topic], **EAGER) as a:
            eventually(lambda: collecting.members(group) == {"a": a.owned} and a.owned)
        eventually(lambda: collecting.members(group) == {})
        admin.delete_consumer_groups([group])[group].result()
        eventually(lambda: kinds()[-1] == "group.deleted")
        assert collecting.stop() == 0
        collecting.start()
        with Member(servers, group, "a", [topic], **EAGER) as a:
            eventually(lambda: collecting.members(group) == {"a": a.owned} and a.owned)
        eventually(lambda: collecting.members(group) == {})
        assert collecting.stop() == 0
        # Deleted and made again in one batch: both while nobody reads.
        admin.delete_consumer_groups([group])[group].result()
        with Member(servers, group, "a", [topic], **EAGER) as a:
            eventually(lambda: a.owned)
            collecting.start()
            eventually(lambda: collecting.members(group) == {"a": a.owned})
        assert collecting.stop() == 0

    told = [index for index, kind in enumerate(kinds()) if kind == "topic.partitions_changed"]
    deleted = [index for index, kind in enumerate(kinds()) if kind == "group.deleted"]
    assert len(deleted) == 2
    assert told == [0, deleted[0] + 1, deleted[1] + 1]


def test_killed_again_and_again_it_publishes_what_an_undisturbed_one_does(broker: Kafka, topic: str) -> None:
    servers, groups = broker.bootstrap_servers, [unique("classic"), unique("consumer")]
    done = threading.Event()

    def churn(group: str, config: dict[str, Any]) -> None:
        with Member(servers, group, "stay", [topic], **config) as stay:
            for _ in range(12):
                with Member(servers, group, "visitor", [topic], **config) as visitor:
                    eventually(lambda: spread([stay, visitor], 6))
                eventually(lambda: spread([stay], 6))

    churning = [
        threading.Thread(target=churn, args=pair)
        for pair in zip(groups, (COOPERATIVE, CONSUMER), strict=True)
    ]
    pattern = "|".join(groups)
    with Collecting(servers, pattern) as collecting:
        for thread in churning:
            thread.start()
        for seconds in (4.0, 3.5, 0.7, 2.9, 4.2, 3.6):
            done.wait(seconds)  # the moment of the kill is meant to be any
            collecting.kill()
            collecting.start()
        for thread in churning:
            thread.join()
        with Collecting(servers, pattern) as undisturbed:
            for group in groups:
                eventually(lambda: undisturbed.members(group) == {})  # noqa: B023 - called at once
                eventually(lambda: collecting.members(group) == {})  # noqa: B023 - called at once
            assert undisturbed.stop() == 0
        assert collecting.stop() == 0

    for group in groups:
        wanted = [event for event in undisturbed.events(group) if isinstance(event.data, GroupObserved)]
        assert [
            event for event in collecting.events(group) if isinstance(event.data, GroupObserved)
        ] == wanted
        assert len(wanted) >= 25
    told = [event.data for event in collecting.events() if isinstance(event.data, PartitionsChanged)]
    assert sorted(data.group_id for data in told) == sorted(groups)
    contents: dict[bytes, set[bytes]] = {}
    for message in collecting.read(isolation="read_uncommitted"):
        contents.setdefault(dict(message.headers())["ce_id"], set()).add(message.value())
    assert {ce_id: len(values) for ce_id, values in contents.items() if len(values) > 1} == {}


def test_a_second_collector_takes_over_and_the_first_ends(broker: Kafka, topic: str, tmp_path: Path) -> None:
    group, servers = unique("group"), broker.bootstrap_servers
    with Collecting(servers, group) as first, Member(servers, group, "a", [topic], **EAGER) as a:
        eventually(lambda: spread([a], 6) and first.views(group))
        with Running(log=tmp_path / "second.log") as second:
            second.command = first.command
            second.start()
            eventually(lambda: "following" in second.said())
            with Member(servers, group, "b", [topic], **EAGER):
                eventually(lambda: len(first.members(group) or ()) == 2)
                assert first.ended() == 3
            assert second.stop() == 0


def test_it_waits_for_a_broker_that_restarts_and_for_one_that_crashes() -> None:
    group = unique("group")
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(properties=PROPERTIES))
        servers = broker.bootstrap_servers
        topic = stack.enter_context(written_topic(servers))
        collecting = stack.enter_context(Collecting(servers, group))
        stack.enter_context(Member(servers, group, "a", [topic], **EAGER))
        eventually(lambda: collecting.members(group))
        broker.restart()
        with Member(servers, group, "b", [topic], **EAGER):
            eventually(lambda: len(collecting.members(group) or ()) == 2, timeout=60)
            broker.kill()
            broker.start()
        eventually(lambda: len(collecting.members(group) or ()) == 1, timeout=60)
        generations = consecutive(collecting.views(group))
        assert collecting.stop() == 0

    assert generations == sorted(set(generations))
