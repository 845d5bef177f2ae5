"""Changes of real groups for each rule of advice: with the fault that the rule detects, and without it."""

from dataclasses import replace
from functools import partial
from time import sleep

from streaming.records.events import PROBING
from tests.acceptance.advice.advised_group import (
    AiokafkaGroup,
    GroupWithSharedInstanceId,
    LateConnect,
    ProbingStreams,
    PromptConnect,
)
from tests.acceptance.situations.applications import Connect, Streams
from tests.acceptance.situations.member_kind import MemberKind
from tests.acceptance.situations.operations import begin, end, pods
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.scenarios import CONSUMER, COOPERATIVE, EAGER, STATIC, Scenario
from tests.acceptance.situations.stage import LOG
from tests.support.members import Member
from tests.support.wait import eventually

THREE = tuple("abc")
FOUR_NAMES = tuple("abcd")
EIGHT_NAMES = tuple("abcdefgh")
#: Longer than a rebalance takes until it counts as stuck.
_STUCK_MS = 75_000
_LONG_POLL_MEMBER = replace(EAGER, poll_ms=150_000)
_AIOKAFKA = MemberKind("aiokafka", "eager", poll_ms=30_000)


def deploys(group: RealGroup, names: tuple[str, ...] = EIGHT_NAMES, count: int = 2) -> None:
    """Restart all members one after the other; repeat this ``count`` times."""
    begin(group, *names)
    for _ in range(count):
        with group.step("static-bounce" if group.member_kind.static else "rolling-restart", rejoined=names):
            group.restart_one_by_one(*names)


def batches(group: RealGroup) -> None:
    """Restart eight members, four at once."""
    begin(group, *EIGHT_NAMES)
    with group.step("rolling-restart", rejoined=EIGHT_NAMES):
        for batch in (EIGHT_NAMES[:4], EIGHT_NAMES[4:]):
            group.leave(*batch)
            group.whole()
            group.start(*batch)
            group.whole()


def shared_instance_id(group: RealGroup) -> None:
    """Run two processes with one instance id."""
    begin(group, "a", "b")
    with group.step("duplicate-instance-id", rejoined=("b",)):
        for _ in range(6):
            group.share("b")


def exceed_max_poll_interval(group: RealGroup) -> None:
    """Let a member exceed max.poll.interval.ms."""
    begin(group, "a", "b")
    with group.step("poll-timeout", rejoined=("b",)):
        group.exceed_poll_interval("b")


def busy_member(group: RealGroup, busy_ms: int) -> None:
    """Let a member join while another member processes the records of one poll for ``busy_ms``."""
    begin(group, "a", "b")
    with group.step("scale-out", joined=("c",)):
        group.stage.java.pause_polling(group.java["a"], busy_ms)
        group.start("c")


def replaced_pods(group: RealGroup, *, is_killed: bool) -> None:
    """Replace the pods of a Deployment; killed pods send no LeaveGroup."""
    begin(group, *pods(0))
    with group.step("crash" if is_killed else "rolling-restart", rejoined=pods(1)):
        for old, new in zip(pods(0), pods(1), strict=True):
            (group.crash if is_killed else group.leave)(old)
            group.start(new)
            group.whole()


def restart_after_session_end(group: RealGroup) -> None:
    """Restart a static member after its session has expired."""
    begin(group, "a", "b", "c")
    with group.step("crash", rejoined=("b",)):
        group.stop("b")
        group.whole()
        group.start("b")


def pauses(group: RealGroup) -> None:
    """Suspend a process twice for longer than its session timeout."""
    begin(group, "a", "b")
    member, view = group.python["b"], group.views[LOG]
    assert isinstance(member, Member)
    for _ in range(2):
        with group.step("crash", rejoined=("b",)):
            member.freeze(frozen=True)
            eventually(lambda: view.ids(group.group_id).keys() == {"a"})
            member.freeze(frozen=False)


def half_migration(group: RealGroup) -> None:
    """Migrate one of two members to KIP-848."""
    begin(group, "a", "b")
    with group.step("protocol-migration", rejoined=("a",)):
        group.restart_one_by_one("a", member_kind=CONSUMER)


def migrate_all_members(group: RealGroup) -> None:
    """Migrate all members to KIP-848."""
    begin(group, "a", "b")
    with group.step("protocol-migration", rejoined=("a", "b")):
        group.restart_one_by_one("a", "b", member_kind=CONSUMER)


def changing_instance_ids(group: RealGroup) -> None:
    """Replace static members whose instance ids are the names of a Deployment's pods."""
    begin(group, *pods(0))
    with group.step("fleet-replaced", rejoined=pods(1)):
        for old, new in zip(pods(0), pods(1), strict=True):
            group.stop(old)
            group.start(new)
        group.whole()


def stop_static_member(group: RealGroup, *, leaves: bool) -> None:
    """Stop a static member for good, with or without a LeaveGroup."""
    begin(group, "a", "b", "c")
    with group.step("scale-in" if leaves else "crash", left=("c",)):
        (group.leave if leaves else group.stop)("c")


def other_subscription(group: RealGroup) -> None:
    """Let one of two members subscribe to one more topic."""
    begin(group, "a", "b")
    with group.step("subscription-change"):
        first, more = next(iter(group.topics)), group.topic(4)
        group.subscribe("b", first, more)


def growing_topic(group: RealGroup, *sizes: int) -> None:
    """Increase the topic's partition count to each of these numbers, in order."""
    begin(group, "a", "b")
    for partitions in sizes:
        with group.step("partition-growth"):
            group.grow(partitions)


def three_topics(group: RealGroup) -> None:
    """Consume topics of 3, 5 and 7 partitions with two members."""
    group.topic(5)
    group.topic(7)
    begin(group, "a", "b")


def first_starts(group: RealGroup, *, has_staggered_starts: bool) -> None:
    """Start the whole group twice; its members start one after the other (``has_staggered_starts``) or together."""
    for number in range(2):
        if number:
            end(group)
        with group.step("first-start", joined=FOUR_NAMES):
            for name in FOUR_NAMES:
                group.start(name)
                if has_staggered_starts:
                    group.whole()


def start_workers(group: RealGroup) -> None:
    """Start two Connect workers; the first one is the leader, which remembers the work of departed workers."""
    begin(group, "w1")
    with group.step("scale-out", joined=("w2",)):
        group.start("w2")


def restart_worker(group: RealGroup) -> None:
    """Restart the Connect worker that is not the leader."""
    assert isinstance(group, Connect)
    start_workers(group)
    with group.step("connector-change"):
        group.set_task_count("one", 3)
    with group.step("restart", rejoined=("w2",)):
        group.leave("w2")
        group.start("w2")


def streams(group: RealGroup) -> None:
    """Restart the two instances of a Kafka Streams application, which send no LeaveGroup under the classic protocol."""
    names = (Streams.thread("a"), Streams.thread("b"))
    begin(group, *names)
    with group.step("rolling-restart", rejoined=names):
        group.restart_one_by_one(*names)


def waiting_aiokafka(group: RealGroup) -> None:
    """Start three members of aiokafka and wait for longer than their poll interval."""
    group.start(*THREE)
    group.whole()
    sleep(1.5 * group.member_kind.poll_ms / 1000)
    eventually(lambda: group.views[LOG].rest(group.group_id))


def join_warming_streams(group: RealGroup, probes: int) -> None:
    """Let an instance of a Kafka Streams application join, and wait for this many probing rebalances."""
    first, second = Streams.thread("a"), Streams.thread("b")
    begin(group, first)
    view = group.views[LOG]
    with group.step("scale-out", joined=(second,)):
        group.start(second)
        eventually(
            lambda: [diff.cause.kind for diff in view.rounds(group.group_id)].count(PROBING) >= probes,
            timeout=90.0 * (1 + probes),
            every=0.5,
        )


def _rolling_restart(client: str, protocol: str) -> Scenario:
    return Scenario(MemberKind(client, protocol), partial(deploys, names=("a", "b", "c")))


GROUPS: dict[str, Scenario] = {
    "slow member": Scenario(_LONG_POLL_MEMBER, partial(busy_member, busy_ms=_STUCK_MS)),
    "streams without standby": Scenario(
        MemberKind("streams", "classic"), partial(join_warming_streams, probes=3), group_type=ProbingStreams
    ),
    "streams within its lag": Scenario(
        MemberKind("streams", "classic"), partial(join_warming_streams, probes=0), group_type=Streams
    ),
    "connect, long delay": Scenario(MemberKind("connect", "sessioned"), restart_worker, group_type=LateConnect),
    "connect, short delay": Scenario(MemberKind("connect", "sessioned"), restart_worker, group_type=PromptConnect),
    "streams classic": Scenario(MemberKind("streams", "classic"), streams, group_type=Streams),
    "streams kip-1071": Scenario(MemberKind("streams", "streams"), streams, group_type=Streams),
    "eager": Scenario(EAGER, deploys, partitions=48),
    "cooperative": Scenario(COOPERATIVE, deploys, partitions=48),
    "static": Scenario(STATIC, deploys, partitions=48),
    "kip-848": Scenario(CONSUMER, deploys, partitions=48),
    "static kip-848": Scenario(replace(STATIC, protocol="consumer"), deploys, partitions=48),
    "eager, four at once": Scenario(EAGER, batches, partitions=48),
    "shared instance id": Scenario(STATIC, shared_instance_id),
    "exceeded poll interval": Scenario(EAGER, exceed_max_poll_interval),
    "busy member": Scenario(EAGER, partial(busy_member, busy_ms=3000)),
    "killed pods": Scenario(EAGER, partial(replaced_pods, is_killed=True)),
    "closed pods": Scenario(EAGER, partial(replaced_pods, is_killed=False)),
    "static, away too long": Scenario(STATIC, restart_after_session_end),
    "two long pauses": Scenario(MemberKind("confluent", "eager"), pauses),
    "half migrated": Scenario(EAGER, half_migration),
    "migrated": Scenario(EAGER, migrate_all_members),
    "instance ids of pods": Scenario(STATIC, changing_instance_ids),
    "static scale-in": Scenario(STATIC, partial(stop_static_member, leaves=False)),
    "static scale-in with LeaveGroup": Scenario(STATIC, partial(stop_static_member, leaves=True)),
    "two subscriptions": Scenario(EAGER, other_subscription),
    "topic grows three times": Scenario(EAGER, lambda group: growing_topic(group, 8, 10, 12)),
    "topic grows once": Scenario(EAGER, lambda group: growing_topic(group, 12)),
    "four members, two partitions": Scenario(
        EAGER, lambda group: begin(group, *FOUR_NAMES), partitions=2, group_type=GroupWithSharedInstanceId
    ),
    "four members, six partitions": Scenario(EAGER, lambda group: begin(group, *FOUR_NAMES)),
    "four members, eight partitions": Scenario(EAGER, lambda group: begin(group, *FOUR_NAMES), partitions=8),
    "range over three topics": Scenario(EAGER, three_topics, partitions=3),
    "cooperative over three topics": Scenario(COOPERATIVE, three_topics, partitions=3),
    "aiokafka, two partitions": Scenario(_AIOKAFKA, waiting_aiokafka, partitions=2, group_type=AiokafkaGroup),
    "aiokafka, three partitions": Scenario(_AIOKAFKA, waiting_aiokafka, partitions=3, group_type=AiokafkaGroup),
    "staggered starts": Scenario(EAGER, partial(first_starts, has_staggered_starts=True)),
    "joint starts": Scenario(EAGER, partial(first_starts, has_staggered_starts=False)),
    "confluent eager": _rolling_restart("confluent", "eager"),
    "confluent cooperative": _rolling_restart("confluent", "cooperative"),
    "confluent kip-848": _rolling_restart("confluent", "consumer"),
    "kafka-python eager": _rolling_restart("kafka-python", "eager"),
    "kafka-python cooperative": _rolling_restart("kafka-python", "cooperative"),
}
#: Groups without a fault, of all client libraries and protocols.
HEALTHY = (
    *("eager", "cooperative", "static", "kip-848", "static kip-848", "closed pods", "migrated", "busy member"),
    *("static scale-in with LeaveGroup", "topic grows once", "joint starts", "four members, eight partitions"),
    *("confluent eager", "confluent cooperative", "confluent kip-848", "kafka-python eager"),
    *("kafka-python cooperative", "streams kip-1071", "connect, short delay", "eager, four at once"),
    "cooperative over three topics",
)
