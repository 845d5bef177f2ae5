"""Groups other than consumer groups: diffs are consistent (after = kept + assigned) and do not depend on batches."""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from streaming.records.events import Event, GroupObserved, Holding, ObservedMember
from tests.support.groups import topic_partitions
from tests.support.histories import Log, check_diff_algebra, diffs, log_by_partition, play
from tests.support.pure_stream import by_key, run

KINDS: dict[str, dict[str, Any]] = {
    "connect": {"kind": "connect", "protocol_type": "connect", "protocol": "sessioned"},
    "streams": {"kind": "streams", "protocol": "stream"},
    "kip-1071": {"kind": "streams", "group_protocol": "streams"},
    "share": {"kind": "share", "group_protocol": "share"},
}


def history(name: str, random: Random, length: int = 12) -> list[Event]:
    """Return generations of a group with random members and assignments, up to the group's deletion."""
    log, kind_fields = Log(f"g-{name}"), KINDS[name]
    epochs = "group_protocol" in kind_fields
    first = -1 if name == "connect" else 0
    events: list[Event] = [] if name in ("connect", "kip-1071") else [log.topics(t=4, u=2)]
    number = 0
    for _ in range(length):
        number += random.choice((0, 1, 1, 1, 2)) if number else 1
        ids = random.sample("abc", random.randrange(4))
        free = [(topic, p) for topic in ("t", "u") for p in range(first, 4 if topic == "t" else 2)]
        members = []
        for member_id in ids:
            share: Holding = {}
            for topic, partition in random.sample(free, random.randrange(len(free) // 2 + 1)):
                share.setdefault(topic, []).append(partition)
                if name != "share":
                    free.remove((topic, partition))
            pending = {"t": [0]} if random.random() < 0.3 else {}
            standby = {"0": [random.randrange(3)]} if kind_fields["kind"] == "streams" else UNSET
            members.append(
                ObservedMember(
                    member_id=member_id, topics=["t", "u"], assigned=share, pending_revocation=pending, standby=standby
                )
            )
        delay = random.choice((UNSET, 5000)) if name == "connect" else UNSET
        state = random.choice(("Stable", "Assigning", "Reconciling")) if members else "Empty"
        count = {"group_epoch" if epochs else "generation": number}
        events.append(log.event(GroupObserved, members=members, delay_ms=delay, state=state, **count, **kind_fields))
    return [*events, log.delete()]


@given(name=st.sampled_from(list(KINDS)), seed=st.integers(0, 10**9))
@settings(max_examples=30)
def test_random_diffs_satisfy_the_algebra(name: str, seed: int) -> None:
    rounds = diffs(play(history(name, Random(seed)))[1])

    assert rounds
    for diff in rounds:
        assert diff.kind == KINDS[name]["kind"]
        if name != "share":
            check_diff_algebra(diff)
        owned = topic_partitions(share for member in diff.members.values() for share in (member.kept, member.assigned))
        assert not {*owned} & {*topic_partitions([diff.unassigned])}
        assert not diff.violations


@given(seed=st.integers(0, 10**9), batch=st.sampled_from((1, 3, 50)), buckets=st.sampled_from((1, 4)))
@settings(max_examples=15)
def test_output_does_not_depend_on_batches_or_buckets(seed: int, batch: int, buckets: int) -> None:
    log = log_by_partition([event for name in KINDS for event in history(name, Random(seed))], 4)

    assert by_key(run(log, batch=batch, buckets=buckets)) == by_key(run(log, batch=10_000, buckets=1))
