"""``place``: the brokers of new partitions, from options a person types."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from assignors.java import JavaRandom
from assignors.placement import Broker, InvalidPlacement, Placement, assign_replicas, place_striped

Placer = Literal["admin-utils", "striped"]

_BROKER = re.compile(r"(\d{1,10})(?::([^:]*))?(:fenced)?", re.ASCII)


def parse_brokers(text: str) -> list[Broker]:
    """``0:r1,1:r3,2``: ids, each with a rack if it has one; ``3:r1:fenced`` and ``3::fenced`` are out of service.

    Raises:
        InvalidPlacement: the message shows the part that can't be read.
    """
    if not text.strip():
        raise InvalidPlacement("brokers: none given")
    brokers = []
    for part in text.split(","):
        read = _BROKER.fullmatch(part.strip())
        if read is None or int(read[1]) > 2**31 - 1:
            raise InvalidPlacement(f"brokers: {part.strip()!r} is not ID, ID:RACK or ID:RACK:fenced")
        brokers.append(Broker(int(read[1]), read[2] or None, fenced=read[3] is not None))
    return brokers


def place_replicas(
    brokers: str,
    partitions: int,
    replication_factor: int,
    *,
    placer: Placer = "admin-utils",
    start_index: int | None = None,
    shift: int | None = None,
    start_partition: int = 0,
    seed: int | None = None,
) -> Placement:
    """Every new partition's brokers, the preferred leader first; what is not given is drawn at random.

    Raises:
        MonitorError: the question contradicts itself.
    """
    with _named_as_options():
        parsed = parse_brokers(brokers)
        random = JavaRandom(secrets.randbits(48) if seed is None else seed)
        if placer == "striped":
            for name, given in (("start-index", start_index), ("shift", shift)):
                if given is not None:
                    raise InvalidPlacement(
                        f"{name}: the striped placer has none; it draws offsets, see --seed"
                    )
            return place_striped(
                parsed, partitions, replication_factor, random, start_partition=start_partition
            )
        if any(broker.fenced for broker in parsed):
            raise InvalidPlacement(
                "brokers: admin-utils knows no fenced brokers; leave them out, or use striped"
            )
        return assign_replicas(
            parsed,
            partitions,
            replication_factor,
            start_index=start_index,
            shift=shift,
            start_partition=start_partition,
            random=random,
        )


@contextmanager
def _named_as_options() -> Iterator[None]:
    """A refusal names the field; a person typed an option."""
    try:
        yield
    except InvalidPlacement as error:
        field, colon, problem = str(error).partition(":")
        raise type(error)(f"--{field.removeprefix('--').replace('_', '-')}{colon}{problem}") from error
