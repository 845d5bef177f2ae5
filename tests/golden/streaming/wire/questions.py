"""Random questions about records, and the answers as lines of text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from assignors.errors import BadInput
from streaming.wire import codec
from streaming.wire.codec import Record
from streaming.wire.dead_letters import dead_letter_headers, fit
from streaming.wire.events import EVENT_TYPES, GroupObserved
from tests.support.recorded import SORTS, records

_TEXTS = (b"", b"x", b"\xff", b"member.joined", b"member.heartbeat", b"group.observed", None)


def _json_spoiled(chance: random.Random, value: bytes) -> bytes:
    """A field that is null, of another type, negative, at a bound, new or gone; or broken JSON."""
    found = json.loads(value)
    inner: Any = found
    while True:
        name = chance.choice(sorted(inner) if isinstance(inner, dict) else range(len(inner)))
        if isinstance(inner[name], dict | list) and inner[name] and chance.random() < 0.7:
            inner = inner[name]
        else:
            break
    drawn = chance.randrange(10)
    if drawn == 0:
        return value[: chance.randrange(len(value))]
    if drawn == 1:
        del inner[name]
    elif drawn == 2:
        return value + chance.choice([b" ", b"x", b"[" * 99, b"\xff"])
    elif drawn == 3 and isinstance(inner, dict):
        inner["more"] = "["
    else:
        bounds = [-(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 253402300799999, 253402300800000, -1, 0, 1]
        inner[name] = chance.choice([None, "text", "", 1.5, True, [], {}, [-1], *bounds])
    return json.dumps(found).encode()


def decoded(number: int) -> Iterator[str]:
    """Records of every sort, whole and spoiled: what is read of them, and the dead letter of what can't be."""
    chance = random.Random(f"decoded {number}")
    for place, record in enumerate(records(SORTS[number % 3], 200)):
        key, value = record.key, record.value
        fields = {"type": record.type, "id": record.id, "source": record.source}
        drawn = chance.randrange(4)
        if drawn == 0:
            fields[chance.choice(sorted(fields))] = chance.choice(_TEXTS)
        elif drawn == 1:
            key = chance.choice([None, b"", b"g", b"\xff"])
        elif drawn == 2:
            value = None if value is None or chance.random() < 0.05 else _json_spoiled(chance, value)
        one = Record(0, place, key, value, **fields, time=record.time, headers=None)
        beat = codec.read_heartbeat(one)
        try:
            event = codec.read(one)
        except BadInput as error:
            headers = dead_letter_headers(one.all_headers, error, topic="t", partition=1, offset=place)
            size = codec.record_bytes(key, value, headers)
            cut = fit(key, value, headers, size - chance.choice([0, 1, 40, size // 2, size - 60]))
            yield f"{place} {size} {cut}"
            continue
        data = event.data
        known = (
            (data.kind, data.holds_tasks, data.counts_epochs, data.polled)
            if isinstance(data, GroupObserved)
            else ()
        )
        yield f"{place} {event.id} {event.source} {beat is not None} {known} {codec.encode_event(event)}"


def nested(_: int) -> Iterator[str]:
    """How deep a value may be, in every way to write it."""
    decoder = codec._decoder("member.joined")
    for depth in (98, 99, 100, 101, 102):
        for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, '"' + "[" * depth + '"'):
            for more in ("", '"\\"[[[[[\\\\"', '"]]]]"', '""'):
                value = f'{{"groupId":"g","x":[{", ".join(filter(None, (more, text)))}]}}'
                try:
                    codec.decode(decoder, value.encode())
                    said = "read"
                except codec.UNREADABLE as error:
                    said = f"{type(error).__name__}: {error}"
                yield f"{depth} {more} {text[:6]} {said}"
    yield f"{codec.MAX_RECORD_BYTES} {sorted(EVENT_TYPES)}"
    for stamp in (-1, 0, 1, 999, 1000, 253402300799999, 253402300800000, 2**62):
        try:
            yield codec.rfc3339(stamp)
        except BadInput as error:
            yield str(error)


#: The questions, and how many of each.
ASKED = ((decoded, 3), (nested, 1))
