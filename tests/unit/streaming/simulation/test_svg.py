"""Forecasts as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from streaming.simulation.results import Simulation
from streaming.simulation.timeline import PALETTE, render_svg
from tests.support.machines import scenario

SVG = "{http://www.w3.org/2000/svg}"
#: Nine members, one more than a line of the legend holds; one crashes, and its partition is nobody's for long.
TEXT = scenario(
    "t: 2, u: 9",
    *(f"at: 0, join: m{number}, topics: [u]" for number in range(8)),
    "at: 60000, crash: m0",
    "at: 61000, join: b, topics: [t, u]",
)
#: Both pictures whole.
STORED = Path(__file__).parents[3] / "golden/streaming/simulation/crash.svg"


def played(text: str, protocol: str = "eager") -> Simulation:
    return run_scenario(load_scenario(text), protocol, stretches=True)


def drawn(*forecasts: Simulation, title: str = "crash") -> ET.Element:
    return ET.fromstring(render_svg(forecasts, title))  # noqa: S314 - our own


def texts(root: ET.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def test_a_crash_under_two_protocols() -> None:
    assert render_svg([played(TEXT), played(TEXT, "consumer")], "crash") == STORED.read_text()


def test_more_partitions_than_fit_are_counted() -> None:
    shown = texts(drawn(played(scenario("t: 123", "at: 0, join: a"))))
    assert [text for text in shown if text.startswith("t-")] == [f"t-{number}" for number in range(120)]
    assert shown[2].endswith(" · 3 more partitions not drawn")
    shown = texts(drawn(played(scenario("t: 120", "at: 0, join: a"))))
    assert shown[2].endswith(" s")


def test_more_members_than_colours_share_them_and_more_than_fit_have_no_legend() -> None:
    names = [f"member-number-{number:03}" for number in range(70)]
    root = drawn(played(scenario("t: 1", *(f"at: 0, join: {name}" for name in names))))
    assert [text for text in texts(root) if text.startswith("m")] == [name[:16] for name in names[:64]]
    colours = [one.get("fill") for one in root.iter(f"{SVG}rect") if one.get("width") == "11"]
    assert colours == [PALETTE[number % len(PALETTE)] for number in range(64)]
    assert {one.get("y") for one in root.iter(f"{SVG}rect") if one.get("width") == "11"} == {
        str(int(root.get("height") or 0) - 16 - 18 * line) for line in range(1, 9)
    }


@pytest.mark.parametrize("name", ["a\x00b", "a\x1b]0;x\x07", "a\nb", "<b>&amp;", "]]>", "\u202e", "\ufffe"])
@pytest.mark.parametrize("protocol", ["eager", "consumer", "connect"])
def test_no_name_breaks_the_picture(protocol: str, name: str) -> None:
    document = {
        "topics": {name: 1},
        "events": [{"at": 0, "join": "m", "topics": [name]}, {"at": 5000, "leave": "m"}],
    }
    root = drawn(played(json.dumps(document), protocol), title=name)
    shown = name if name.isprintable() else name.encode("unicode_escape").decode()
    assert texts(root)[0] == shown
    assert any(text.startswith(f"{shown}-") for text in texts(root))
