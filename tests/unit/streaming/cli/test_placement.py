from __future__ import annotations

from typing import Any

import pytest

from assignors.placement.replicas import Broker, InvalidPlacement
from streaming.cli.checking import parse_brokers, place_replicas


def test_brokers() -> None:
    assert parse_brokers("0:r1, 1:r3,2,3:r1:fenced,4::fenced,5:") == [
        Broker(0, "r1"),
        Broker(1, "r3"),
        Broker(2),
        Broker(3, "r1", fenced=True),
        Broker(4, None, fenced=True),
        Broker(5),
    ]


@pytest.mark.parametrize("text", ["", " ", "a", "0,,1", "-1", "0:r1:x", "99999999999", "1.5", "٣", "0:a:b:fenced"])
def test_brokers_that_can_not_be_read(text: str) -> None:
    with pytest.raises(InvalidPlacement, match="brokers: "):
        parse_brokers(text)


def test_random_answers_repeat_with_a_seed() -> None:
    for placer in ("admin-utils", "striped"):
        arguments: Any = {"placer": placer, "seed": 5}
        assert place_replicas("0:a,1:b,2:c", 30, 2, **arguments) == place_replicas("0:a,1:b,2:c", 30, 2, **arguments)
        drawn = [place_replicas("0,1,2,3,4", 1, 1, placer=placer) for _ in range(60)]
        assert len({leader for found in drawn for (leader,) in found.values()}) > 1


def test_striped_places_on_unfenced_brokers_first() -> None:
    found = place_replicas("0:a,1:a:fenced,2:b", 20, 2, placer="striped", start_partition=7)
    assert list(found) == list(range(7, 27))
    assert all(sorted(replicas) == [0, 2] for replicas in found.values())


@pytest.mark.parametrize(
    ("brokers", "options", "message"),
    [
        ("0,1", {"placer": "striped", "start_index": 0}, "--start-index"),
        ("0,1", {"placer": "striped", "shift": 0}, "--shift"),
        ("0,1::fenced", {}, "brokers: admin-utils knows no fenced brokers"),
        ("0::fenced", {"placer": "striped"}, "brokers: all of them are fenced"),
        ("0:a,1", {}, "--brokers: 1 without a rack"),
        ("0", {"replication_factor": 2}, "--replication-factor: 2 is larger than the number of brokers, 1"),
        ("0", {"start_index": -1}, "--start-index: -1"),
        ("0", {"start_partition": 2**31 - 1, "partitions": 2}, "--start-partition: 2147483647 and 2 partitions"),
    ],
)
def test_refused(brokers: str, options: Any, message: str) -> None:
    with pytest.raises(InvalidPlacement, match=message):
        place_replicas(brokers, **{"partitions": 1, "replication_factor": 1, **options})
