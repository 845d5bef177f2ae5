"""Forecasts that stood: of every ready scenario, and of many by chance, under every protocol.

A line says what people compare, and the digest of all the rest: each round, the timeline, the picture.
``WRITE_RECORDED=1`` writes them anew.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from assignors.errors import MonitorError
from streaming.protocols.families import FAMILIES
from streaming.simulate.parse import loads
from streaming.simulate.ready import READY, ready
from streaming.simulate.results import document, summary
from streaming.simulate.run import forecast
from streaming.simulate.svg import picture
from streaming.simulate.timeline import draw, members
from tests.golden.streaming.simulate.scenarios import Document, Scenarios

HERE = Path(__file__).parent


def told(text: str, protocol: str, seed: int) -> list[Any]:
    """The figures and a digest; of what can't be played, why."""
    try:
        found = forecast(loads(text), protocol, stretches=True, view_lag_ms=700 * (seed % 2), seed=seed)
    except MonitorError as error:
        return [str(error)]
    names = members([found])
    drawn = [draw(found, names, width, 5, found.shown_until) for width in (20, 77)]
    rest = json.dumps([document([found]), drawn, picture([found], "title")])
    return [*summary(found), sha256(rest.encode()).hexdigest()[:16]]


def asked() -> dict[str, Document]:
    chosen = {f"{name} {size}": ready(name, *size) for name in READY for size in ((None, None), (5, 7))}
    random = Scenarios(81)
    return chosen | {f"by chance {number}": random.playable() for number in range(40)}


def check(name: str, found: dict[str, Any]) -> None:
    """One line an entry."""
    path = HERE / name
    if os.environ.get("WRITE_RECORDED"):
        lines = (
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.items()
        )
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert found == json.loads(path.read_text())


@pytest.mark.parametrize("protocol", FAMILIES)
def test_forecasts(protocol: str) -> None:
    found = {
        name: told(json.dumps(text), protocol, seed) for seed, (name, text) in enumerate(asked().items())
    }
    check(f"forecasts-{protocol}.json", found)


def test_ready_scenarios_as_they_are_written_for_a_file() -> None:
    wanted = ((None, None), (1, 1), (9, 5))
    check("ready.json", {f"{name} {size}": ready(name, *size) for name in READY for size in wanted})


def test_what_cannot_be_played_is_told_in_the_same_words() -> None:
    random = Scenarios(82)
    found: dict[str, str | None] = {}
    for number in range(300):
        text = json.dumps(random.spoiled())
        try:
            loads(text)
        except MonitorError as error:
            found[str(number)] = str(error)
    assert len(found) > 200
    check("refusals.json", found)
