"""Views played on the members that they do not repeat give what views played whole do, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from streaming.monitor import repeats
from streaming.monitor.blob import Bucket
from streaming.monitor.brief import Naming
from streaming.monitor.envelope import Sinks, Write
from streaming.wire import repeated
from streaming.wire.events import POLLING, Event, Evidence, GroupObserved
from tests.support.epochs import Epochs
from tests.support.pure_stream import SINKS, by_key, in_batches

pytest.importorskip("rebalance_kernel", reason="built where there is cargo; views are read whole then")

MOST = SINKS._replace(expected_partitions=40)
#: ``[stream] diffs`` and the topic of episodes may be other than they usually are.
OTHERS = (MOST, MOST._replace(naming="all"), MOST._replace(naming="changed"), MOST._replace(episodes=None))


def in_full(log: Iterable[Event], chance: Random, *, classic: bool) -> Iterator[Event]:
    """The same log of a group whose changes are not told; now and then what a collector would not tell."""
    generation = 0
    for event in log:
        data = event.data
        if not isinstance(data, GroupObserved):
            yield event
            continue
        data = structs.replace(data, followed=UNSET)
        if classic:
            generation += chance.choice((1, 1, 1, 1, 1, 1, 0, 2))
            data = _classic(data, generation, chance)
        else:  # more epochs, as most views of a group that is on its way give no round
            generation += chance.random() < 0.5
            data = structs.replace(data, group_epoch=(data.group_epoch or 0) + generation)
        event = structs.replace(event, data=_odd(data, chance))  # noqa: PLW2901 - as it is told
        yield event
        if chance.random() < 0.05:
            yield event


def _classic(data: GroupObserved, generation: int, chance: Random) -> GroupObserved:
    own = chance.random() < 0.2
    members = [
        structs.replace(
            one,
            target=None,
            member_epoch=None,
            previous_member_epoch=None,
            state=None,
            pending_revocation={},
            owned=one.assigned if own else {},
        )
        for one in data.members
    ]
    protocol = "cooperative-sticky" if chance.random() < 0.95 else chance.choice(("range", "mine"))
    return structs.replace(
        data,
        members=members,
        generation=generation,
        group_epoch=None,
        group_protocol="classic",
        protocol=protocol,
    )


def _odd(data: GroupObserved, chance: Random) -> GroupObserved:
    members = [*data.members]
    match chance.randrange(60) if members else None:
        case 0:
            chance.shuffle(members)
        case 1:
            members.append(chance.choice(members))
        case 2:
            place = chance.randrange(len(members))
            members[place] = structs.replace(members[place], owned={"t0": [0, 1]}, member_id=f"new-{place}")
        case 3:
            return structs.replace(data, evidence=[Evidence(source=POLLING, reason="")])
        case 4:
            named = [chance.choice(members).member_id]
            said = Evidence(source="x", reason='sagt "ja"', member_ids=named, kind="member.joined")
            return structs.replace(data, evidence=[said])
        case 5:
            instance, name = (
                chance.choice((None, "i-1", "i-2")),
                chance.choice((members[-1].member_id, "ä\n]},{")),
            )
            members[-1] = structs.replace(members[-1], group_instance_id=instance, member_id=name)
    return structs.replace(data, members=members)


def play(log: Iterable[Event], batches: Random, sinks: Sinks) -> tuple[bytes, list[Write]]:
    """What a bucket makes of a log in batches by chance, packed after each."""
    bucket, writes = in_batches(log, batches, 0.05, sinks)
    return bucket.pack(), writes


def both(log: list[Event], seed: int, sinks: Sinks) -> tuple[bytes, list[Write]]:
    with patch.object(repeated, "native", None):
        packed, expected = play(log, Random(seed), sinks)
    found = play(log, Random(seed), sinks)
    assert found[1] == expected
    assert found[0] == packed
    return found


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    members=st.integers(1, 40),
    rules=st.booleans(),
    classic=st.booleans(),
    sinks=st.sampled_from(OTHERS),
)
def test_repeats_give_what_the_whole_group_does(
    seed: int, members: int, rules: bool, classic: bool, sinks: Sinks
) -> None:
    both([*in_full(Epochs(members, seed, rules=rules).log(60), Random(seed), classic=classic)], seed, sinks)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), members=st.integers(2, 40), classic=st.booleans())
def test_batches_change_no_diff(seed: int, members: int, classic: bool) -> None:
    log = [*in_full(Epochs(members, seed).log(60), Random(seed), classic=classic)]
    whole = play(log, Random(1), MOST)
    others = play(log, Random(2), MOST)
    assert by_key(others[1]) == by_key(whole[1])
    assert Bucket(others[0]).get("g") == Bucket(whole[0]).get("g")


@pytest.mark.parametrize("naming", ["all", "changed"])
@pytest.mark.parametrize("classic", [False, True])
def test_many_views_are_played_on_a_part(classic: bool, naming: Naming) -> None:
    """Else the others compare a thing with itself."""
    log = [*in_full(Epochs(60, 3, rules=True).log(300), Random(3), classic=classic)]
    steps = []

    def step(*arguments: object) -> object:
        steps.append(taken(*arguments))
        return steps[-1]

    taken = repeats.step
    with patch.object(repeats, "step", step):
        play(log, Random(3), MOST._replace(naming=naming))

    played = [one for one in steps if isinstance(one, repeats.RepeatedRound)]
    assert len([one for one in played if one.found]) > 60
    assert classic or len([one for one in played if not one.found]) > 20
