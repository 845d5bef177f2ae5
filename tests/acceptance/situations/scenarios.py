"""The scenarios of this test suite: the changes of each group, with the expected kind of each episode."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from tests.acceptance.situations import operations
from tests.acceptance.situations.applications import Connect, Streams
from tests.acceptance.situations.member_kind import POLL_MS, MemberKind
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.stage import stage
from tests.support.processes import process_lock
from tests.support.wait import eventually

#: With more groups at once, members get too little processor time and their sessions time out.
_MAX_PARALLEL_GROUPS = 4 * (os.cpu_count() or 1)
EAGER = MemberKind("java", "eager", poll_ms=POLL_MS)
COOPERATIVE = replace(EAGER, protocol="cooperative")
CONSUMER = replace(EAGER, protocol="consumer")
STATIC = replace(EAGER, static=True)
EAGER_WITH_GIVEN_PARTITIONS = MemberKind("kafka-python", "eager", placed=True)
RACKS = (("a", "z1"), ("b", "z1"), ("c", "z2"), ("d", "z2"))
TEN_NAMES = tuple(f"m{number}" for number in range(10))


def _beginning(group: RealGroup) -> None:
    operations.begin(group, "a", "b")
    with group.step("scale-out", joined=("c",)):
        group.start("c")


def _crash_member(group: RealGroup) -> None:
    with group.step("crash", left=("c",)):
        group.crash("c")


def _apply_all_changes(group: RealGroup) -> None:
    """Apply every change that a group of Java consumers supports under the group's protocol."""
    _beginning(group)
    with group.step("subscription-change"):
        first, more = next(iter(group.topics)), group.topic(4)
        group.subscribe("b", first, more)
    with group.step("partition-growth"):
        group.grow(9)
    with group.step("rolling-restart", rejoined=("a", "b", "c")):
        group.restart_one_by_one("a", "b", "c")
    with group.step("poll-timeout", rejoined=("b",), unsure_kinds=("crash", "restart")):
        group.exceed_poll_interval("b")
    with group.step("scale-in", left=("a",)):
        group.leave("a")
    with group.step("restart", rejoined=("b", "c")):
        group.leave("b", "c")
        group.start("b")
        group.start("c", member_kind=replace(group.member_kind, client="confluent"))
    _crash_member(group)
    operations.end(group)


def _apply_usual_changes(group: RealGroup) -> None:
    """Restart members, remove one and crash one: the changes that groups of all kinds support."""
    _beginning(group)
    with group.step("rolling-restart", rejoined=("a", "b"), unsure_kinds=("restart",)):
        group.restart_one_by_one("a", "b")
    with group.step("scale-in", left=("b",)):
        group.leave("b")
    _crash_member(group)
    operations.end(group)


def new_assignor(group: RealGroup) -> None:
    """Replace members by ones that prefer another assignor, which the group uses once most members prefer it."""
    _beginning(group)
    kind_with_reversed_assignors = replace(group.member_kind, assignors=tuple(reversed(group.member_kind.assignors)))
    with group.step("assignor-change", rejoined=("a", "b", "c")):
        group.restart_one_by_one("a", "b", "c", member_kind=kind_with_reversed_assignors)
    operations.end(group)


def migrate_to_kip_848(group: RealGroup) -> None:
    """Migrate from the classic protocol to KIP-848, one member after the other."""
    _beginning(group)
    with group.step("protocol-migration", rejoined=("a", "b", "c")):
        group.restart_one_by_one("a", "b", "c", member_kind=replace(group.member_kind, protocol="consumer"))
    operations.end(group)


def static(group: RealGroup) -> None:
    """Restart members with instance ids; no partition moves if they rejoin within the session timeout."""
    _beginning(group)
    with group.step("static-bounce", rejoined=("b",)):
        group.restart_one_by_one("b")
    with group.step("static-bounce", rejoined=("a", "b", "c")):
        group.restart_one_by_one("a", "b", "c")
    _crash_member(group)
    operations.end(group)


def restart_ten_members(group: RealGroup) -> None:
    """Restart ten members one by one."""
    operations.begin(group, *TEN_NAMES)
    with group.step("static-bounce" if group.member_kind.static else "rolling-restart", rejoined=TEN_NAMES):
        group.restart_one_by_one(*TEN_NAMES)
    operations.end(group)


def scale_out_and_in(group: RealGroup) -> None:
    """Scale a healthy group out and then in."""
    operations.begin(group, "a", "b")
    with group.step("scale-out", joined=("c", "d")):
        group.start("c", "d")
    with group.step("scale-in", left=("a", "d")):
        group.leave("a", "d")
    operations.end(group)


def join_one_member(group: RealGroup) -> None:
    """Let a second member join a group of one member."""
    operations.begin(group, "a")
    with group.step("scale-out", joined=("b",)):
        group.start("b")
    operations.end(group)


def storm(group: RealGroup, kill_count: int = 3, every: float = 0) -> None:
    """Kill a member repeatedly; ``every``: minimum seconds between two kills."""
    operations.begin(group, "a", "b")
    with group.step("storm", rejoined=("b",)):
        for _ in range(kill_count):
            killed_at = monotonic()
            group.kill_times.append(killed_at)
            group.crash("b")
            group.whole()
            group.start("b")
            group.whole()
            eventually(lambda: monotonic() >= killed_at + every)  # noqa: B023 - called at once
    operations.end(group)


def run_long_storm(group: RealGroup) -> None:
    """Run a storm of three minutes."""
    storm(group, kill_count=9, every=20)


def connectors(group: RealGroup) -> None:
    """Create and delete connectors of a worker."""
    assert isinstance(group, Connect)
    operations.begin(group, "w1")
    with group.step("connector-change"):
        group.set_task_count("one", 2)
    with group.step("connector-change"):
        group.set_task_count("two", 1)
    with group.step("connector-change"):
        group.delete("one")
    operations.end(group)


def streams(group: RealGroup) -> None:
    """Run a Kafka Streams application; under the classic protocol its threads send no LeaveGroup."""
    a, b, c = map(Streams.thread, "abc")
    operations.begin(group, a, b)
    with group.step("scale-out", joined=(c,)):
        group.start(c)
    with group.step("rolling-restart", rejoined=(a, b, c)):
        group.restart_one_by_one(a, b, c)
    sends_leave = group.member_kind.protocol == "streams"
    with group.step("crash", left=(c,), is_provable=sends_leave):
        group.crash(c)
    with group.step("scale-in" if sends_leave else "crash", left=(b,), is_provable=sends_leave):
        group.leave(b)
    with group.step("shutdown" if sends_leave else "crash", left=(a,), is_provable=sends_leave):
        group.leave(a)


@dataclass(frozen=True)
class Scenario:
    """A scenario: the clients of a group's members, and the changes of the group."""

    member_kind: MemberKind
    apply: Callable[[RealGroup], None]
    partitions: int = 6
    group_type: type[RealGroup] = RealGroup


@contextmanager
def run_scenarios(scenarios: Mapping[str, Scenario], folder: Path) -> Iterator[dict[str, Future[RealGroup]]]:
    """Apply the scenarios at the same time, each to a group of its own on a shared broker, in the given order."""
    with process_lock("crowd"), stage(folder) as made, ThreadPoolExecutor(_MAX_PARALLEL_GROUPS) as pool:

        def play(name: str, scenario: Scenario) -> RealGroup:
            group_name = name.replace(" ", "-").replace(",", "")
            group = scenario.group_type(made, group_name, scenario.member_kind, scenario.partitions)
            try:
                scenario.apply(group)
            finally:
                group.close()
            return group

        yield {name: pool.submit(play, name, scenario) for name, scenario in scenarios.items()}


def _python_scenario(client: str, protocol: str) -> Scenario:
    return Scenario(MemberKind(client, protocol, has_listener=protocol != "consumer"), _apply_usual_changes)


SCENARIOS: dict[str, Scenario] = {
    "java eager": Scenario(EAGER, _apply_all_changes),
    "java cooperative": Scenario(COOPERATIVE, _apply_all_changes),
    "java kip-848": Scenario(CONSUMER, _apply_all_changes),
    "java static eager": Scenario(STATIC, static),
    "java static kip-848": Scenario(replace(STATIC, protocol="consumer"), static),
    "java new assignor": Scenario(replace(EAGER, assignors=("range", "roundrobin")), new_assignor),
    "java migration": Scenario(EAGER, migrate_to_kip_848),
    "java scales twice": Scenario(EAGER, scale_out_and_in),
    "java kip-848, one join": Scenario(CONSUMER, join_one_member),
    "confluent kip-848, one join": Scenario(MemberKind("confluent", "consumer"), join_one_member),
    "ten eager": Scenario(EAGER, restart_ten_members, partitions=20),
    "ten cooperative": Scenario(COOPERATIVE, restart_ten_members, partitions=20),
    "ten static": Scenario(STATIC, restart_ten_members, partitions=20),
    "ten kip-848": Scenario(CONSUMER, restart_ten_members, partitions=20),
    "confluent eager": _python_scenario("confluent", "eager"),
    "confluent cooperative": _python_scenario("confluent", "cooperative"),
    "confluent kip-848": _python_scenario("confluent", "consumer"),
    "kafka-python eager": _python_scenario("kafka-python", "eager"),
    "kafka-python cooperative": _python_scenario("kafka-python", "cooperative"),
    "storm eager": Scenario(MemberKind("confluent", "eager"), storm),
    "storm kip-848": Scenario(MemberKind("confluent", "consumer"), storm),
    "storm for three minutes": Scenario(MemberKind("confluent", "cooperative"), run_long_storm),
    "connect": Scenario(MemberKind("connect", "sessioned"), connectors, group_type=Connect),
    "streams classic": Scenario(MemberKind("streams", "classic"), streams, group_type=Streams),
    "streams kip-1071": Scenario(MemberKind("streams", "streams"), streams, group_type=Streams),
    "three rollouts eager": Scenario(EAGER, operations.run_rollouts),
    "three rollouts cooperative": Scenario(COOPERATIVE, operations.run_rollouts),
    "three rollouts kip-848": Scenario(CONSUMER, operations.run_rollouts),
    "three rollouts static": Scenario(STATIC, operations.run_rollouts),
    "twenty cooperative": Scenario(COOPERATIVE, operations.roll_out_twenty_members, partitions=40),
    "twenty kip-848": Scenario(CONSUMER, operations.roll_out_twenty_members, partitions=40),
    "shared instance id": Scenario(STATIC, operations.share_instance_id),
    "rejoins eager": Scenario(EAGER, operations.rejoins),
    "rejoins cooperative": Scenario(COOPERATIVE, operations.rejoins),
    "one requested rebalance": Scenario(EAGER, operations.request_one_rebalance),
    "overtaken start eager": Scenario(EAGER, operations.join_during_first_rebalance, partitions=16),
    "overtaken start cooperative": Scenario(COOPERATIVE, operations.join_during_first_rebalance, partitions=16),
    "overtaken start kip-848": Scenario(CONSUMER, operations.join_during_first_rebalance, partitions=16),
    "visitors eager": Scenario(EAGER, operations.join_and_leave_together),
    "visitors kip-848": Scenario(CONSUMER, operations.join_and_leave_together),
    "start and leave eager": Scenario(EAGER, operations.start_and_leave),
    "start and leave kip-848": Scenario(CONSUMER, operations.start_and_leave),
    "killed eager": Scenario(EAGER, operations.kill_all),
    "killed cooperative": Scenario(COOPERATIVE, operations.kill_all),
    "killed kip-848": Scenario(MemberKind("confluent", "consumer"), operations.kill_all),
    "recreated eager": Scenario(EAGER, operations.restart_all_together),
    "recreated cooperative": Scenario(COOPERATIVE, operations.restart_all_together),
    "recreated kip-848": Scenario(CONSUMER, operations.restart_all_together),
    "recreated elsewhere": Scenario(EAGER_WITH_GIVEN_PARTITIONS, operations.replace_on_other_hosts),
    "surge": Scenario(EAGER_WITH_GIVEN_PARTITIONS, operations.roll_out_with_surge),
    "fleet replaced": Scenario(EAGER_WITH_GIVEN_PARTITIONS, operations.replace_all_members),
    "zone lost": Scenario(MemberKind("confluent", "consumer", racks=RACKS), operations.kill_members_of_rack),
    "topic added eager": Scenario(MemberKind("confluent", "eager"), operations.create_subscribed_topic),
    "topic added kip-848": Scenario(CONSUMER, operations.create_subscribed_topic),
    "topic matches eager": Scenario(MemberKind("confluent", "eager", pattern=True), operations.create_matching_topic),
    "topic matches kip-848": Scenario(
        MemberKind("confluent", "consumer", pattern=True), operations.create_matching_topic
    ),
    "offsets reset": Scenario(MemberKind("confluent", "eager"), operations.reset_offsets),
    "overrun librdkafka": Scenario(MemberKind("poller", "eager", poll_ms=POLL_MS), operations.exceed_poll_interval),
    "deployment eager": Scenario(EAGER, operations.roll_out_with_surge),
    "deployment kip-848": Scenario(CONSUMER, operations.roll_out_with_surge),
    # Java retries its commit to the deleted topic for max.poll.interval.ms before it rejoins: first the leader, which
    # notices the change, and then the others, which the leader's JoinGroup makes rejoin.
    "deleted topic eager": Scenario(replace(EAGER, poll_ms=30_000), operations.delete_subscribed_topic),
    "deleted topic kip-848": Scenario(CONSUMER, operations.delete_subscribed_topic),
    "migration from cooperative": Scenario(COOPERATIVE, migrate_to_kip_848),
    "console-consumer-1": Scenario(EAGER, operations.console),
    "console-consumer-2": Scenario(MemberKind("confluent", "eager"), operations.console),
    "connect, worker restart": Scenario(
        MemberKind("connect", "sessioned"), operations.restart_worker, group_type=Connect
    ),
}
