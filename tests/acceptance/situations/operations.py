"""Operations, deployments and failures of groups, which several scenarios use."""

from time import sleep

from tests.acceptance.situations.applications import Connect
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.stage import POLLING
from tests.support.wait import eventually

TWENTY_NAMES = tuple(f"m{number}" for number in range(20))


def pods(rollout: int) -> tuple[str, ...]:
    """Return the names of a Deployment's pods after this many rollouts; each rollout has a new ReplicaSet."""
    letter = "bcdfghjklm"[rollout]
    return tuple(f"shop-7d9f8b6c{letter}-{suffix}{letter}" for suffix in ("r2x2", "q8r7", "k4w9"))


def end(group: RealGroup) -> None:
    """Let all members of the group leave."""
    gone = tuple(group.subscribed)
    with group.step("shutdown", left=gone):
        group.leave(*gone)


def begin(group: RealGroup, *names: str) -> None:
    """Start the members of the group."""
    with group.step("first-start", joined=names):
        group.start(*names)


def run_rollouts(group: RealGroup, count: int = 3) -> None:
    """Run rolling restarts with a quiet time between them."""
    begin(group, "a", "b", "c")
    for _ in range(count):
        with group.step("static-bounce" if group.member_kind.static else "rolling-restart", rejoined=("a", "b", "c")):
            group.restart_one_by_one("a", "b", "c")
    end(group)


def roll_out_twenty_members(group: RealGroup) -> None:
    """Run a healthy rollout of twenty members."""
    begin(group, *TWENTY_NAMES)
    with group.step("rolling-restart", rejoined=TWENTY_NAMES):
        group.restart_one_by_one(*TWENTY_NAMES)
    end(group)


def share_instance_id(group: RealGroup) -> None:
    """Run two processes with the same instance id; each process is fenced by the other one, and restarted."""
    begin(group, "a", "b")
    group.expected_incidents = ("duplicate-instance-id",)
    with group.step("duplicate-instance-id", rejoined=("b",)):
        for _ in range(6):
            group.share("b")
    end(group)


def rejoins(group: RealGroup) -> None:
    """Let a member request rebalances repeatedly."""
    begin(group, "a", "b")
    group.expected_incidents = ("storm",)
    with group.step("storm"):
        for _ in range(8):
            group.rejoin("b", "app asked")
    end(group)


def request_one_rebalance(group: RealGroup) -> None:
    """Let the application of one member request a rebalance."""
    begin(group, "a", "b")
    with group.step("app-requested"):
        group.rejoin("b", "app asked")
    end(group)


def join_during_first_rebalance(group: RealGroup) -> None:
    """Let members join during the first rebalance, and immediately after it."""
    with group.step("first-start", joined=TWENTY_NAMES[:8]):
        for name in TWENTY_NAMES[:8]:
            group.start(name)
            sleep(0.3)  # the pace of a deployment
    end(group)


def join_and_leave_together(group: RealGroup) -> None:
    """Let three members join and leave again immediately."""
    begin(group, "a", "b")
    with group.step("unknown"):
        group.start("c", "d", "e")
        group.whole()
        group.leave("c", "d", "e")
    end(group)


def start_and_leave(group: RealGroup) -> None:
    """Let three members join an empty group and leave immediately."""
    del group.views[POLLING]  # a poll may come too late to see these members
    with group.step("first-start", joined=("a", "b", "c"), expected_second_kind="shutdown"):
        group.start("a", "b", "c")
        group.whole()
        group.leave("a", "b", "c")


def kill_all(group: RealGroup) -> None:
    """Kill all members and restart them on one host within the quiet time, which looks like a coordinator outage."""
    begin(group, "a", "b")
    with group.step("crash", rejoined=("a", "b"), unsure_kinds=("crash", "restart"), is_provable=False):
        group.crash("a", "b")
        group.start("a", "b")
    end(group)


def restart_all_together(group: RealGroup) -> None:
    """Stop all members and restart them within the quiet time, as a Deployment with the Recreate strategy does."""
    begin(group, "a", "b", "c")
    with group.step("restart", rejoined=("a", "b", "c"), unsure_kinds=("restart",), is_provable=False):
        group.leave("a", "b", "c")
        group.start("a", "b", "c")
    end(group)


def replace_on_other_hosts(group: RealGroup, count: int = 1) -> None:
    """Replace all members by new members on other hosts, as a Deployment with the Recreate strategy does."""
    begin(group, *pods(0))
    for number in range(1, count + 1):
        possible_kinds = ("restart", "recreate")
        with group.step("recreate", rejoined=pods(number), unsure_kinds=possible_kinds, is_provable=False):
            group.leave(*pods(number - 1))
            group.start(*pods(number))
    end(group)


def roll_out_with_surge(group: RealGroup, count: int = 1) -> None:
    """Run rollouts of a Deployment with maxSurge: each new pod starts before an old pod ends."""
    begin(group, *pods(0))
    for number in range(1, count + 1):
        with group.step("surge", rejoined=pods(number), unsure_kinds=("rolling-restart", "restart", "surge")):
            for old, new in zip(pods(number - 1), pods(number), strict=True):
                group.start(new)
                group.whole()
                group.leave(old)
                group.whole()
    end(group)


def replace_all_members(group: RealGroup, count: int = 1) -> None:
    """Run blue-green deploys: a second set of members joins, then the first one leaves."""
    begin(group, *pods(0))
    for number in range(1, count + 1):
        possible_kinds = ("fleet-replaced", "restart", "rolling-restart")
        with group.step("fleet-replaced", rejoined=pods(number), unsure_kinds=possible_kinds):
            group.start(*pods(number))
            group.whole()
            group.leave(*pods(number - 1))
    end(group)


def kill_members_of_rack(group: RealGroup) -> None:
    """Kill all members of one of two racks."""
    begin(group, "a", "b", "c", "d")
    with group.step("zone-lost", left=("c", "d"), unsure_kinds=("crash", "zone-lost"), is_provable=False):
        group.crash("c", "d")
    end(group)


def create_subscribed_topic(group: RealGroup) -> None:
    """Create a topic to which the members already subscribe."""
    later = group.subscribe_missing_topic()
    begin(group, "a", "b")
    kind = (
        "topic-added" if group.member_kind.client == "java" else "subscription-change"
    )  # librdkafka sends existing names
    with group.step(kind, unsure_kinds=("topic-added",), is_provable=False):
        group.create(later, 4)
    end(group)


def create_matching_topic(group: RealGroup) -> None:
    """Create a topic that matches the members' pattern: the clients then subscribe to the matching names."""
    begin(group, "a", "b")
    with group.step("subscription-change"):
        group.topic(4, prefix=group.group_id)
        for name in group.subscribed:
            group.subscribed[name] = tuple(group.topics)
    end(group)


def reset_offsets(group: RealGroup) -> None:
    """Reset the offsets of the group while it is empty."""
    begin(group, "a", "b")
    end(group)
    del group.views[POLLING]  # polling reads no commits of empty groups
    with group.step("offsets-reset", is_provable=False):
        before = {name: len(view.episodes(group.group_id)) for name, view in group.views.items()}
        group.reset()
        for name, view in group.views.items():  # offsets of stable groups are sampled once a minute
            eventually(lambda: len(view.episodes(group.group_id)) > before[name])  # noqa: B023 - called at once


def exceed_poll_interval(group: RealGroup) -> None:
    """Let a librdkafka member stop polling: the member leaves without a reason, and rejoins when it polls again."""
    begin(group, "a", "b")
    with group.step("poll-timeout", rejoined=("b",), unsure_kinds=("restart", "crash"), is_provable=False):
        group.exceed_poll_interval("b")
    end(group)


def delete_subscribed_topic(group: RealGroup) -> None:
    """Delete one of two topics to which the members subscribe."""
    gone = group.topic(4)
    begin(group, "a", "b")
    group.expected_incidents = ("topic-gone",)
    with group.step("topic-deleted", unsure_kinds=("unknown", "restart", "crash", "topic-deleted"), is_provable=False):
        group.delete(gone)
    step = group.steps[-1]
    step.rejoined = group.removed_members(step.at)
    if step.rejoined:  # its commits to the deleted topic took longer than the group waited
        step.kind = "poll-timeout"
    end(group)


def console(group: RealGroup) -> None:
    """Start and stop a short-lived console consumer."""
    begin(group, "console-consumer")
    end(group)


def restart_worker(group: RealGroup) -> None:
    """Restart a Connect worker within scheduled.rebalance.max.delay.ms."""
    assert isinstance(group, Connect)
    begin(group, "w1", "w2")
    with group.step("connector-change"):
        group.set_task_count("one", 3)
    with group.step("restart", rejoined=("w2",), unsure_kinds=("restart",), is_provable=False):
        group.leave("w2")
        group.start("w2")
