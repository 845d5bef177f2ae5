"""Scenarios of ``simulate`` by chance, and ones that can't be played; the same for the same seed."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

Document = dict[str, Any]

#: Either side of the timeouts, and instants at which several things happen.
PAUSES_MS = (0, 0, 0, 1, 3_000, 5_000, 10_000, 44_999, 45_000, 45_001, 60_000, 70_000, 310_000)
JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 1.5, "", "x", "c~1", "a\nb", [], ["t0"], ["u"], [1], {}, {"t0": 1}),
    *({"t0": -1}, {"t9": 4}, {"partitions": 2, "racks": [["a"]]}, {"partitions": 1, "racks": "a"}),
)


class Scenarios:
    """Makes one scenario after the other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def playable(self) -> Document:
        """A scenario whose events can happen in their order."""
        chance = self.random
        counts = {f"t{number}": chance.choice((0, 1, 3, 4, 7)) for number in range(chance.randint(1, 3))}
        topics: dict[str, Any] = dict(counts)
        if chance.random() < 0.3:
            racks = [[chance.choice("abc")] for _ in range(counts["t0"])]
            topics["t0"] = {"partitions": counts["t0"], "racks": racks}
        found: Document = {"topics": topics, "events": []}
        for name, values in (
            ("session_timeout_ms", (6_000, 10_000, 45_000)),
            ("rebalance_timeout_ms", (5_000, 60_000)),
            ("scheduled_rebalance_delay_ms", (0, 20_000)),
            ("metadata_max_age_ms", (0, 30_000)),
        ):
            if chance.random() < 0.2:
                found[name] = chance.choice(values)
        self._happen(found, counts)
        return found

    def _happen(self, found: Document, counts: dict[str, int]) -> None:
        chance, now = self.random, 0
        lives: dict[str, tuple[str, int]] = {}
        for number in range(chance.randint(1, 5)):
            found["events"].append(self._join(f"c{number}", 0, counts))
            lives[f"c{number}"] = ("up", 0)
        for _ in range(chance.randint(0, 9)):
            now += chance.choice(PAUSES_MS)
            name = f"c{chance.randrange(7)}"
            state, back = lives.get(name, ("new", 0))
            kinds = ["crash", "leave", "subscribe"]
            if state == "up" and now >= back:
                kinds += ["bounce", "bounce", "pause"]
            elif state == "left":
                kinds = ["join", "subscribe"]
            elif state != "up":
                kinds = ["join"]
            kind = chance.choice([*kinds, *(["partitions"] if chance.random() < 0.3 else [])])
            if chance.random() < 0.05:
                kind = "coordinator_fails"
            if kind == "join":
                event, lives[name] = self._join(name, now, counts), ("up", 0)
            elif kind in ("bounce", "pause"):
                event = {"at": now, kind: name, "down_ms": chance.choice(PAUSES_MS)}
                event |= self._said(counts) if kind == "bounce" else {}
                lives[name] = ("up", now + event["down_ms"])
            elif kind == "subscribe":
                topics = chance.sample(list(counts), chance.randint(0, len(counts)))
                event, lives[name] = (
                    {"at": now, kind: name, "topics": topics},
                    ("up", back if state == "up" else 0),
                )
            elif kind in ("crash", "leave"):
                event, lives[name] = {"at": now, kind: name}, ("crashed" if kind == "crash" else "left", 0)
            else:
                event = {"at": now, kind: True if kind == "coordinator_fails" else self._grown(counts)}
            found["events"].append(event)

    def _grown(self, counts: dict[str, int]) -> dict[str, int]:
        topic = self.random.choice(list(counts))
        counts[topic] += self.random.choice((0, 1, 5))
        return {topic: counts[topic]}

    def _join(self, name: str, at: int, counts: dict[str, int]) -> Document:
        return {"at": at, "join": name, **self._said(counts)}

    def _said(self, counts: dict[str, int]) -> Document:
        chance, said = self.random, Document()
        if chance.random() < 0.5:
            said["topics"] = chance.sample(list(counts), chance.randint(0, len(counts)))
        if chance.random() < 0.3:
            said["instance_id"] = f"i{chance.randrange(4)}"
        if chance.random() < 0.2:
            said["rack_id"] = chance.choice("abc")
        if chance.random() < 0.03:
            said["assignors"] = chance.choice((["range"], ["sticky", "range"], ["roundrobin"]))
        if chance.random() < 0.15:
            said["group_protocol"] = chance.choice(("classic", "consumer"))
        return said

    def spoiled(self) -> Document:
        """A scenario with one thing in it that may be wrong."""
        chance = self.random
        found = copy.deepcopy(self.playable())
        events = found["events"]
        place = chance.choice([found, found["topics"], *events, *events, *events])
        roll = chance.random()
        if roll < 0.35:
            place[chance.choice(list(place))] = chance.choice(JUNK)
        elif roll < 0.5:
            del place[chance.choice(list(place))]
        elif roll < 0.65:
            name = chance.choice(list(place))
            place[chance.choice((name[:-1], f"{name}s", "racks", "down_ms", "topics", "join"))] = place[name]
        elif roll < 0.85:
            chance.shuffle(events)
        else:
            events.insert(chance.randrange(len(events) + 1), chance.choice([*events, *JUNK]))
        return found
