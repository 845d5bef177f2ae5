"""Operations, deployments and failures of groups, beyond the histories of a single kind."""

from __future__ import annotations

from time import sleep

from tests.acceptance.situations.applications import Connect
from tests.acceptance.situations.life import RealGroup
from tests.acceptance.situations.stage import POLLING
from tests.support.wait import eventually

TWENTY = tuple(f"m{number}" for number in range(20))
#: Pods of one Deployment, by their ReplicaSets before and after a rollout.
PODS = tuple(f"shop-7d9f8b6c5-{one}" for one in ("r2x2z", "q8r7t", "k4w9m"))
NEW_PODS = tuple(f"shop-5c6b9d7f4-{one}" for one in ("x7k2p", "b9v4d", "z5n8c"))


def end(life: RealGroup) -> None:
    """Let all members leave."""
    gone = tuple(life.subscribed)
    with life.step("shutdown", went=gone):
        life.leave(*gone)


def begin(life: RealGroup, *names: str) -> None:
    """Start the group."""
    with life.step("first-start", came=names):
        life.start(*names)


def rollouts(life: RealGroup) -> None:
    """Run three rolling restarts with a quiet time between them."""
    begin(life, "a", "b", "c")
    for _ in range(3):
        with life.step("rolling-restart", back=("a", "b", "c")):
            life.roll("a", "b", "c")
    end(life)


def rollout_of_twenty(life: RealGroup) -> None:
    """Run a healthy rollout of twenty members."""
    begin(life, *TWENTY)
    with life.step("rolling-restart", back=TWENTY):
        life.roll(*TWENTY)
    end(life)


def shared_instance(life: RealGroup) -> None:
    """Run two processes with the same instance id, each restarted when the other has it fenced."""
    begin(life, "a", "b")
    life.alarms = ("duplicate-instance-id",)
    with life.step("duplicate-instance-id", back=("b",)):
        for _ in range(6):
            life.share("b")
    end(life)


def rejoins(life: RealGroup) -> None:
    """Let a member request rebalances repeatedly."""
    begin(life, "a", "b")
    life.alarms = ("storm",)
    with life.step("storm"):
        for _ in range(8):
            life.rejoin("b", "app asked")
    end(life)


def one_request(life: RealGroup) -> None:
    """Let an application request one rebalance."""
    begin(life, "a", "b")
    with life.step("app-requested"):
        life.rejoin("b", "app asked")
    end(life)


def join_during_first_rebalance(life: RealGroup) -> None:
    """Let members join during and right after the first rebalance."""
    with life.step("first-start", came=TWENTY[:8]):
        for name in TWENTY[:8]:
            life.start(name)
            sleep(0.3)  # the pace of a deployment
    end(life)


def short_visits(life: RealGroup) -> None:
    """Let three members join and leave again at once."""
    begin(life, "a", "b")
    with life.step("unknown"):
        life.start("c", "d", "e")
        life.whole()
        life.leave("c", "d", "e")
    end(life)


def start_and_leave(life: RealGroup) -> None:
    """Let three members join an empty group, and leave at once."""
    del life.views[POLLING]  # a snapshot may come too late to see them
    with life.step("first-start", came=("a", "b", "c"), then="shutdown"):
        life.start("a", "b", "c")
        life.whole()
        life.leave("a", "b", "c")


def kill_all(life: RealGroup) -> None:
    """Kill all members and restart them within the quiet time on one host; this may also be an outage of the
    coordinator.
    """
    begin(life, "a", "b")
    with life.step("crash", back=("a", "b"), may=("crash", "restart"), provable=False):
        life.crash("a", "b")
        life.start("a", "b")
    end(life)


def recreated(life: RealGroup) -> None:
    """Stop all members and restart them within the quiet time: a Deployment with the Recreate strategy."""
    begin(life, "a", "b", "c")
    with life.step("restart", back=("a", "b", "c"), may=("restart",), provable=False):
        life.leave("a", "b", "c")
        life.start("a", "b", "c")
    end(life)


def recreated_elsewhere(life: RealGroup) -> None:
    """The same on other hosts: new pods with the Recreate strategy."""
    begin(life, *PODS)
    with life.step("recreate", back=NEW_PODS, may=("restart", "recreate"), provable=False):
        life.leave(*PODS)
        life.start(*NEW_PODS)
    end(life)


def surge(life: RealGroup) -> None:
    """Run a rollout of a Deployment with maxSurge: each new pod starts before an old one ends."""
    begin(life, *PODS)
    with life.step("surge", back=NEW_PODS, may=("rolling-restart", "restart", "surge")):
        for old, new in zip(PODS, NEW_PODS, strict=True):
            life.start(new)
            life.whole()
            life.leave(old)
            life.whole()
    end(life)


def fleet_replaced(life: RealGroup) -> None:
    """Run a blue-green deploy: a second set of members joins, then the first one leaves."""
    begin(life, *PODS)
    with life.step("fleet-replaced", back=NEW_PODS, may=("fleet-replaced", "restart", "rolling-restart")):
        life.start(*NEW_PODS)
        life.whole()
        life.leave(*PODS)
    end(life)


def zone_lost(life: RealGroup) -> None:
    """Kill all members of one of two racks."""
    begin(life, "a", "b", "c", "d")
    with life.step("zone-lost", went=("c", "d"), may=("crash", "zone-lost"), provable=False):
        life.crash("c", "d")
    end(life)


def topic_added(life: RealGroup) -> None:
    """Create a topic to which the members already subscribe."""
    later = life.awaited_topic()
    begin(life, "a", "b")
    kind = "topic-added" if life.speaks.client == "java" else "subscription-change"  # librdkafka sends existing names
    with life.step(kind, may=("topic-added",), provable=False):
        life.create(later, 4)
    end(life)


def topic_matches(life: RealGroup) -> None:
    """Create a topic that matches the members' pattern: clients send the matching names."""
    begin(life, "a", "b")
    with life.step("subscription-change"):
        life.topic(4, prefix=life.group)
        for name in life.subscribed:
            life.subscribed[name] = tuple(life.topics)
    end(life)


def offsets_reset(life: RealGroup) -> None:
    """Reset the offsets of the group while it is empty."""
    begin(life, "a", "b")
    end(life)
    del life.views[POLLING]  # it reads no commits of empty groups
    with life.step("offsets-reset", provable=False):
        before = {name: len(view.episodes(life.group)) for name, view in life.views.items()}
        life.reset()
        for name, view in life.views.items():  # offsets of stable groups are sampled once a minute
            eventually(lambda: len(view.episodes(life.group)) > before[name])  # noqa: B023 - called at once


def exceed_poll_interval(life: RealGroup) -> None:
    """Let a librdkafka member stop polling: it leaves without a reason, and rejoins when it polls."""
    begin(life, "a", "b")
    with life.step("poll-timeout", back=("b",), may=("restart", "crash"), provable=False):
        life.stall("b")
    end(life)


def deleted_topic(life: RealGroup) -> None:
    """Delete one of two subscribed topics."""
    gone = life.topic(4)
    begin(life, "a", "b")
    life.alarms = ("topic-gone",)
    with life.step("topic-deleted", may=("unknown", "restart", "crash", "topic-deleted"), provable=False):
        life.delete(gone)
    step = life.steps[-1]
    step.back = life.removed(step.at)
    if step.back:  # its commits to the deleted topic took longer than the group waited
        step.kind = "poll-timeout"
    end(life)


def console(life: RealGroup) -> None:
    """Start and stop a short-lived console consumer."""
    begin(life, "console-consumer")
    end(life)


def worker_restart(life: RealGroup) -> None:
    """Restart a Connect worker within the scheduled delay."""
    assert isinstance(life, Connect)
    begin(life, "w1", "w2")
    with life.step("connector-change"):
        life.configure("one", 3)
    with life.step("restart", back=("w2",), may=("restart",), provable=False):
        life.leave("w2")
        life.start("w2")
