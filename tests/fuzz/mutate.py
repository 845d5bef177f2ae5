"""Mutates the input of a fuzz target: complete records, a value within JSON, or plain bytes."""

import json
import re
from collections.abc import Iterator
from random import Random
from struct import pack
from typing import Any

from tests.fuzz.case import Case, FuzzTarget, RecordPart

#: Limits of widths, fields and calendars.
EDGE_NUMBERS = (
    *(-1, 0, 1, 2, 127, 128, 255, 256, 32_767, 32_768, 65_535, 2_000_000, 2_000_001),
    *(2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64),
    *(253_370_764_799_999, 253_370_764_800_000, 10**40),
)
UNUSUAL_TEXTS = (
    *("", " ", "0", "x", "\0", "\n", "\r\n", "é", "ﷺ", "𝔊", "²", "١", "\ud800", "..", "/", "%", "%2F", "~", "'", '"'),
    *("null", "true", "A" * 22, "consumer", "classic", "range", "t0", "c1", "\u202e", "\x1b[31m", "a" * 40_000),
)
_VALUES: tuple[Any, ...] = (None, True, False, 1.5, -0.0, 1e308, float("nan"), float("inf"), [], {}, [[]], [None])
_NUMBER = re.compile(rb"\d+")
#: Depth of nesting that no decoder supports.
_DEEP_NESTING = 3_000


class CaseMutator:
    """Mutates inputs of one fuzz target, and mixes them with the target's seeds."""

    def __init__(self, target: FuzzTarget, seeds: list[Case]) -> None:
        self._target = target
        self._seeds = seeds

    def seed(self, random: Random) -> Case:
        """Return a randomly chosen seed."""
        return list(random.choice(self._seeds))

    def mutate_case(self, case: Case, random: Random) -> Case:
        """Return a copy of the case after one or a few mutations."""
        case = list(case) or self.seed(random)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            if random.random() < 0.25 and case:
                case = self._records(case, random)
            if case:
                at = random.randrange(len(case))
                case[at] = self._part(case[at], at, random)
        return case

    def _records(self, case: Case, random: Random) -> Case:
        """Return the records with some removed, repeated, moved, or replaced by records of another case."""
        width = self._target.width
        records = [case[at : at + width] for at in range(0, len(case), width)]
        at = random.randrange(len(records))
        match random.randrange(5):
            case 0 if len(records) > 1:
                del records[at]
            case 1:
                records.insert(random.randint(0, len(records)), list(records[at]))
            case 2:
                records.append(records.pop(at))
            case _:
                second_seed = self.seed(random)
                start = random.randrange(0, len(second_seed), width) if second_seed else 0
                end = start + width * random.choice((1, 1, 2, len(second_seed)))
                records[at:at] = [second_seed[start:end]]
        return [part for record in records for part in record][: 64 * width]

    def _part(self, part: RecordPart, at: int, random: Random) -> RecordPart:
        chance = random.random()
        if part is None or chance < 0.03:
            return random.choice((None, b"", self._random_part(at, random)))
        if chance < 0.1:
            return self._random_part(at, random)
        if chance < 0.6 and part[:1] in (b"{", b"["):
            try:
                return self._json(json.loads(part), random)
            except (ValueError, RecursionError):  # text that only begins like JSON
                return self._bytes(part, random)
        return self._bytes(part, random)

    def _random_part(self, at: int, random: Random) -> RecordPart:
        """Return a part (key, value, …) of a random record of a random seed, in the position of the part at ``at``."""
        second_seed = self.seed(random)
        column_parts = second_seed[at % self._target.width :: self._target.width]
        return random.choice(column_parts) if column_parts else b""

    def _bytes(self, part: bytes, random: Random) -> bytes:
        at = random.randint(0, len(part))
        width = random.choice((1, 1, 2, 4, 8, 16, len(part) + 1))
        match random.randrange(9):
            case 0:
                new = bytes([part[at] ^ 1 << random.randrange(8)]) if at < len(part) else b"\x80"
                width = 1
            case 1:
                new = random.randbytes(random.choice((1, 1, 2, 4)))
            case 2:
                size, struct_format = random.choice(((1, ">b"), (2, ">h"), (4, ">i"), (8, ">q")))
                fitting_numbers = [edge for edge in EDGE_NUMBERS if -(1 << 8 * size - 1) <= edge < 1 << 8 * size - 1]
                new, width = pack(struct_format, random.choice(fitting_numbers)), random.choice((0, size))
            case 3:
                new = b""
            case 4:
                new, width = part[at : at + width] * random.choice((1, 2, 50)), 0
            case 5 if self._target.words:
                new, width = random.choice(self._target.words), random.choice((0, 1, width))
            case 6:
                new = random.choice(UNUSUAL_TEXTS).encode(errors="surrogatepass")
            case 7 if numbers := list(_NUMBER.finditer(part)):
                number = random.choice(numbers)
                edge = random.choice((*EDGE_NUMBERS, 10**5000))
                return part[: number.start()] + _number_bytes(edge) + part[number.end() :]
            case _:
                second_seed = self._random_part(random.randrange(self._target.width), random) or b""
                start = random.randint(0, len(second_seed))
                new = second_seed[start : start + width]
        return part[:at] + new + part[at + width :]

    def _json(self, value: Any, random: Random) -> bytes:
        places = list(_json_places(value))
        if not places:
            return json.dumps(self._value(random, value)).encode()
        holder, key = random.choice(places)
        match random.randrange(7):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[random.choice((*UNUSUAL_TEXTS, str(key) + "x"))] = holder[key]
            case 1:
                holder.insert(key, holder[key])
            case 2:
                target, place = random.choice(places)
                try:
                    holder[key] = json.loads(json.dumps(target[place]))
                except (KeyError, IndexError):
                    holder[key] = None
            case 3 if isinstance(holder, list):
                random.shuffle(holder)
            case 4 if isinstance(holder[key], int):
                holder[key] += random.choice((-1, 1, 1000))
            case _:
                holder[key] = self._value(random, value)
        text = json.dumps(value, ensure_ascii=random.random() < 0.5)
        if random.random() < 0.05:
            text = text[:-1] + ', "x": ' + "[" * _DEEP_NESTING + "]" * _DEEP_NESTING + text[-1:]
        return text.encode(errors="surrogatepass")

    def _value(self, random: Random, whole: Any) -> Any:
        match random.randrange(4):
            case 0:
                return random.choice(EDGE_NUMBERS)
            case 1:
                return random.choice(UNUSUAL_TEXTS)
            case 2:
                return random.choice(_VALUES)
            case _:
                return [whole, [random.choice(EDGE_NUMBERS)], {"t": [random.choice(EDGE_NUMBERS)]}][random.randrange(3)]


def _number_bytes(number: int) -> bytes:
    return b"9" * 5000 if number > 10**4000 else str(number).encode()


def _json_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every pair of container and key within a JSON value."""
    level = [value]
    while level:
        inner: list[Any] = []
        for holder in level:
            keys = holder if isinstance(holder, dict) else range(len(holder))
            for key in keys:
                yield holder, key
                if isinstance(holder[key], dict | list):
                    inner.append(holder[key])
        level = inner
