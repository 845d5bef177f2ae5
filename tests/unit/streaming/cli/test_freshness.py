from __future__ import annotations

import re

import pytest

from streaming.cli.stories import FreshnessWarnings, ago
from streaming.freshness import Freshness, Late

SINCE = 1_700_000_000
SILENT = Freshness(late=Late("collector-silent", "No heartbeat from collector \x1bc", SINCE * 1000))
AWAY = Freshness(known=False, late=Late("kafka-unreachable", "No contact with Kafka", SINCE * 1000))
UNKNOWN = Freshness(known=False)


def test_each_change_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = Freshness()
    told = FreshnessWarnings(lambda _: found)
    said = []
    states = (Freshness(), UNKNOWN, SILENT, SILENT, UNKNOWN, SILENT, AWAY, UNKNOWN, Freshness(), Freshness())
    for number, found in enumerate(states):  # noqa: B007 - what the function gives
        told.poll(2.0 * number, SINCE + 130)
        said += capsys.readouterr().err.splitlines()
    assert [re.sub(r"\d\d:\d\d:\d\d", "<time>", line) for line in said] == [
        r"No heartbeat from collector \x1bc since <time> (2 min ago): groups may have changed since",
        "No contact with Kafka since <time> (2 min ago): groups may have changed since",
        "All components of the monitor send heartbeats again and are up to date",
    ]


def test_freshness_is_checked_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []
    told = FreshnessWarnings(lambda now: (asked.append(now), Freshness())[1])
    for moment in (5.0, 5.1, 5.9, 6.0, 6.5):
        told.poll(moment, SINCE)
    assert asked == [5.0, 6.0]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(-3, "0 s ago"), (59.9, "59 s ago"), (60, "1 min ago"), (3599, "59 min ago"), (7300, "2 h ago"), (2e5, "2 d ago")],
)
def test_ages_are_rounded_down(seconds: float, says: str) -> None:
    assert ago(seconds) == says
