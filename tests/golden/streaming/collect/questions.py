"""Random questions to the pure parts of ``collect``, and the answers as lines of text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from msgspec import structs

from streaming.collect.coordinator_log import CoordinatorLog
from streaming.collect.fold import Fold, Found, Outcome, Row
from streaming.collect.polling.group import (
    UNKNOWN,
    Described,
    Known,
    in_flux,
    is_news,
    poll,
    resumed,
    resumed_from_latest,
)
from streaming.collect.polling.pace import Pace, Schedule
from streaming.collect.polling.resume import known_by
from streaming.wire.codec import encode, encode_event
from streaming.wire.diffs import LatestAssignment
from streaming.wire.events import GroupObserved, ObservedMember
from tests.support.offsets_topic import GOLDEN, KINDS, captured, captured_kind


def _said(outcome: Outcome) -> str:
    if isinstance(outcome, Found):
        _, value, headers = encode_event(outcome.event)
        return f"  {headers[1][1].decode()} {headers[2][1].decode()} {value.decode()}"
    return f"  {outcome.row.offset} {type(outcome.error).__name__}: {outcome.error}"


def _spoiled(chance: random.Random, data: bytes | None) -> bytes | None:
    """What a careless hand makes of bytes: one changed, some lost, some doubled, or nothing left."""
    if not data or chance.random() < 0.03:
        return None
    place = chance.randrange(len(data))
    kind = chance.randrange(6)
    if kind < 3:
        value = chance.choice(
            [0, 1, 2, 3, 4, 127, 128, 255, (data[place] + 1) % 256, (data[place] - 1) % 256]
        )
        return data[:place] + bytes([value]) + data[place + 1 :]
    if kind == 3:
        return data[:place]
    if kind == 4:
        return data[:place] + data[place + chance.randint(1, 4) :]
    return data + data[place:][: chance.randint(1, 8)]


def spoiled(number: int) -> Iterator[str]:
    """Real records of every kind of group, each between spoiled copies of itself: what the fold makes of them."""
    chance = random.Random(f"spoiled {number}")
    real = [row for rows in captured().values() for row in rows]
    for rows in (real, *map(captured_kind, KINDS)):
        fold = Fold("s", 0, lambda topic_id: topic_id, surely_alive_ms=30_000)
        for place, row in enumerate(rows):
            for turn in range(3):
                chosen = Row(0, 3 * place + turn, row.timestamp, row.key, row.value)
                if turn != 1:
                    key = _spoiled(chance, row.key) if chance.random() < 0.2 else row.key
                    stamp = row.timestamp if chance.random() < 0.95 else chance.choice([-1, 0, 2**62])
                    chosen = Row(0, chosen.offset, stamp, key, _spoiled(chance, row.value))
                yield from map(_said, fold.add(chosen))
                yield f"{chosen.offset} {fold.open_offset}"
        yield from map(_said, fold.settle())
        topics = {group: sorted(names) for group, names in sorted(fold.subscriptions().items())}
        yield json.dumps(topics)


def _member(chance: random.Random, name: str, *, consumer: bool) -> ObservedMember:
    share = {"t": sorted(chance.sample(range(4), chance.randint(1, 3)))} if chance.random() < 0.8 else {}
    target = share if chance.random() < 0.6 else {"t": [chance.randrange(4)]}
    return ObservedMember(
        member_id=name,
        topics=[],
        assigned=share,
        target=target if consumer else None,
        group_instance_id=f"i-{name[0]}" if name.startswith("s") else None,
        client_id="c",
        client_host=chance.choice(["/1", "/1", "/2"]),
    )


def polled(number: int) -> Iterator[str]:
    """What follows from a hundred answers of a coordinator, with other collectors and restarts between."""
    chance = random.Random(f"polled {number}")
    known, now = UNKNOWN, 1_000
    protocol, assignor = chance.choice(["classic", "consumer"]), chance.choice(["range", "stream", None])
    members: tuple[ObservedMember, ...] = ()
    for _ in range(100):
        now += chance.choice([1, 50, 999, 60_000])
        drawn = chance.randrange(20)
        if drawn == 0:
            protocol = chance.choice(["classic", "consumer"])
        elif drawn == 1:
            assignor = chance.choice(["range", "stream", None])
        elif drawn < 12:
            names = chance.sample(["a", "b", "s1", "s2"], chance.randint(0, 3))
            members = tuple(_member(chance, name, consumer=protocol == "consumer") for name in names)
        elif drawn == 12:
            known = _by_other(chance, now)
        state = chance.choice(["Stable"] * 4 + ["Empty", "Assigning", "PreparingRebalance", "Dead"])
        if drawn == 13:
            known = in_flux(known, state, now, chance.choice([None, now - 7]))
        yield f"{now} {protocol} {assignor} {state} {_known(known)} news {is_news(known, state)}"
        described = Described("g", protocol, state, assignor, members)  # type: ignore[arg-type]
        known, event = poll(known, described, now, "kafka://c/groups")
        if event is not None:
            _, value, headers = encode_event(event)
            yield f"  {headers[1][1].decode()} {headers[2][1].decode()} {value.decode()}"
            if drawn == 14:
                known = known_by(event) or UNKNOWN
            if drawn == 15:
                known = resumed(event)


def _by_other(chance: random.Random, now: int) -> Known:
    """What a restart finds: the latest assignment, or what another collector told."""
    if chance.random() < 0.5:
        members = {name: {"t": [chance.randrange(3)]} for name in chance.sample("abc", 2)}
        protocol = chance.choice(["classic", "consumer"])
        consumer = protocol == "consumer"
        latest = LatestAssignment(
            group_id="g",
            timestamp=now,
            members=members,
            generation=None if consumer else 7,
            group_epoch=7 if consumer else None,
            protocol=protocol,
            assignor="range",
        )
        return resumed_from_latest(latest)
    view = GroupObserved(
        group_id="g",
        timestamp=now,
        members=[structs.replace(_member(chance, "a", consumer=False), topics=["t", "u"])],
        generation=chance.choice([None, 4]),
        state=chance.choice(["Stable", None]),
        protocol="range",
    )
    return Known(view, id=chance.choice(["", "x"]), described=now - 5, rest=chance.choice([None, now - 9]))


def _known(known: Known) -> str:
    view = None if known.view is None else encode(known.view).decode()
    parts = (known.id, known.described, known.rest, known.flux, known.number, known.told_by_other)
    return f"{' '.join(map(str, parts))} {view}"


def scheduled(number: int) -> Iterator[str]:
    """Who is asked about when, while groups come and go and answer or not, on a clock that goes in quarters."""
    chance = random.Random(f"scheduled {number}")
    pace = Pace(quick=0.5, slow=4.0, requests=chance.choice([2, 5, 40]))
    schedule, now = Schedule(pace, 0.0), 0.0
    names = [f"g{one}" for one in range(chance.choice([3, 9]))]
    asked: list[str] = []
    for _ in range(400):
        now += chance.choice([0.0, 0.25, 0.25, 1.0])
        name = chance.choice(names)
        drawn = chance.randrange(12)
        if drawn < 2:
            schedule.add(name, chance.choice([1, 2]), now)
        elif drawn == 2:
            schedule.remove(name)
        elif drawn == 3 and name in schedule:
            schedule.hurry(name, now)
        elif drawn == 4:
            schedule.retry(now)
        elif drawn == 5:
            schedule.spend(chance.randint(1, 4), now)
        elif drawn < 9 and asked:
            one = asked.pop(chance.randrange(len(asked)))
            schedule.answered(one, chance.choice(["flux", "rest", "rest", "nothing"]), now)  # type: ignore[arg-type]
        taken = schedule.take(now)
        asked += taken
        figures = (len(schedule), schedule.cost, schedule.pause(now), schedule.overdue(now))
        yield f"{now} {' '.join(taken)} {figures}"


def logged(number: int) -> Iterator[str]:
    """Lines of a real coordinator's log, some spoiled, lost, doubled or in another order: the reasons found."""
    chance = random.Random(f"logged {number}")
    lines = [*(GOLDEN / "coordinator-4.3.1.log").read_text().splitlines(), *_OTHER_LINES]
    chance.shuffle(lines)
    lines += (GOLDEN / "coordinator-4.3.1.log").read_text().splitlines()
    log = CoordinatorLog()
    for line in lines:
        words = line.split(" ")
        if chance.random() < 0.2:
            del words[chance.randrange(len(words))]
        elif chance.random() < 0.2:
            words.insert(chance.randrange(len(words)), chance.choice(words))
        for _ in range(chance.choice([0, 1, 1, 1, 2])):
            log.feed(" ".join(words))
    for group in ("g-classic", "g-consumer", "share", "streams", "g"):
        for generation in range(15):
            for item in log.evidence(group, generation):
                yield f"{group} {generation} {item.kind} {item.member_ids} {item.reason}"


_OTHER_LINES = """\
[GroupId share] Member m joins the share group using the share protocol.
[GroupId share] Bumped group epoch to 3 with metadata hash 0.
[GroupId share] Member m left the share group.
[GroupId share] Member n fenced from the group because its session expired.
[GroupId streams][MemberId m] Member joins the streams group using the streams protocol.
[GroupId streams][MemberId m] Bumped streams group epoch to 4 with metadata hash 1.
[GroupId streams] Streams member m left the streams group.
[GroupId streams] Streams member n fenced from the group because of a rebalance timeout.
[GroupId streams] Static member m with instance id i has left the group.
Group g removed dynamic members who haven't joined: Set(a, b)
Preparing to rebalance group g in state Stable with old generation 5 (reason: Removing [a, b] on pending sync \
request expiration).
Preparing to rebalance group g in state Stable with old generation 6 (reason: Leader l re-joining group because \
its cached metadata has changed).
Preparing to rebalance group g in state Stable with old generation 7 (reason: Updating metadata for static \
member s).
Preparing to rebalance group g in state Empty with old generation 8 (__consumer_offsets-7) (reason: Adding new \
member a with group instance id Some(i))
Stabilized group g generation 9 with 2 members.
Group g with generation 10 is now empty.
Member x in group g has failed, removing it from the group.
""".splitlines()


#: The questions, and how many of each.
ASKED = ((spoiled, 6), (polled, 12), (scheduled, 6), (logged, 6))
