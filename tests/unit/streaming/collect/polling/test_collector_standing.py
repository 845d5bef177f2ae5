from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState as STATE  # noqa: N814 - a constant as its values are

from streaming.collect import lifecycle
from streaming.collect.polling.schedule import Schedule
from tests.support.memory_kafka import MemoryKafka, group
from tests.support.polling import AWAY, ONE, TWO, Polling
from tests.support.wait import eventually


def test_stable_group_is_polled_slowly_from_first_answer(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    answered = Schedule.answered

    def noted(self: Schedule, group_id: str, what: Any, now: float) -> None:
        shown.append(what)
        answered(self, group_id, what, now)

    monkeypatch.setattr(Schedule, "answered", noted)
    kafka.groups["g"] = group("g", shares=ONE)
    with Polling() as polling:
        polling.looks()
        assert set(shown) == {"rest"}
        kafka.groups["g"] = group("g", shares=TWO)
        eventually(lambda: "flux" in shown)
        polling.looks()
        kafka.groups["g"] = group("g", STATE.PREPARING_REBALANCING, {"a": [], "b": []})
        eventually(lambda: shown[-2:] == ["flux", "flux"])
    assert shown[shown.index("flux") + 1] == "rest"


def test_heartbeats_report_only_observed_time(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    signs: list[bool] = []

    class Signs:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def write(self, *, up_to: float | None) -> None:
            signs.append(up_to is not None)

        def write_last(self) -> None:
            signs.append(False)

    def has_published(*expected: bool) -> bool:
        """Return true if the heartbeats since the last call are of these kinds, in this order."""
        found = [one for one, before in zip(signs, [None, *signs], strict=False) if one is not before]
        return found == list(expected)

    monkeypatch.setattr(lifecycle, "HeartbeatWriter", Signs)
    kafka.groups["g"] = group("g", shares=ONE)
    kafka.unlistable = [AWAY]
    with Polling() as polling:
        polling.looks()
        assert has_published(False)  # one broker has not listed its groups
        kafka.unlistable = []
        eventually(lambda: has_published(False, True))
        kafka.away = True
        eventually(lambda: has_published(False, True, False))
        kafka.away = False
        eventually(lambda: has_published(False, True, False, True))
    assert has_published(False, True, False, True, False)
