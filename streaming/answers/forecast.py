"""``simulate``: which scenario is meant, and the scenario or the picture as a file; the file of a deploy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming.simulation import ready_scenarios
from streaming.simulation.document import MAX_JSON, parse_document
from streaming.simulation.parse import load_scenario
from streaming.simulation.scenario import InvalidScenario

if TYPE_CHECKING:
    from streaming.simulation.scenario import Scenario

#: Standard input, in place of a file's name.
STANDARD_INPUT = "-"


def load(name: str, members: int | None, partitions: int | None) -> Scenario:
    """The scenario of a file, of standard input, or the ready one of this name and size.

    Raises:
        InvalidScenario: it can't be read or played; the message names the event and the field.
        UnknownScenario: there is no such file, and no ready scenario of this name.
    """
    if name in ready_scenarios.READY_SCENARIOS and not Path(name).exists():
        return ready_scenarios.load_ready_scenario(name, members, partitions)
    text = _text(name, "SCENARIO")
    if text is None:
        return ready_scenarios.load_ready_scenario(name, members, partitions)  # says which there are
    if members is not None or partitions is not None:
        raise InvalidScenario("--members, --partitions: for ready scenarios only; a file says its own")
    return load_scenario(text)


def deploy(name: str) -> Any:
    """What the file of ``forecast --deploy`` says, or standard input.

    Raises:
        InvalidScenario: it can't be read.
    """
    text = _text(name, "--deploy") if name else None
    if text is None:
        raise InvalidScenario(f"--deploy {name}: there is no such file; it is a scenario as `simulate` takes")
    return parse_document(text)


def _text(name: str, what: str) -> str | None:
    """The text of a file or of standard input, cut just past the limit; None when there is no such file.

    ``what`` names it in a refusal.
    """
    if not name:
        raise InvalidScenario(f"{what}: missing; a file, - or a ready scenario (--list shows them)")
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.read(MAX_JSON + 1)
        with Path(name).open(encoding="utf-8") as file:
            return file.read(MAX_JSON + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidScenario(f"{what} {name}: {os.strerror(error.errno or 0)}") from error
    except UnicodeDecodeError as error:
        raise InvalidScenario(f"{what} {name}: not UTF-8 text") from error


def as_yaml(name: str, members: int | None, partitions: int | None) -> Iterator[str]:
    """The lines of a ready scenario as a file, one event a line."""
    import yaml

    plain = ready_scenarios.ready_document(name, members, partitions)
    yield from yaml.safe_dump(
        {"topics": plain["topics"]}, sort_keys=False, default_flow_style=None
    ).splitlines()
    yield "events:"
    for event in plain["events"]:
        flow = yaml.safe_dump(event, sort_keys=False, default_flow_style=True, width=1000)
        yield f"  - {flow.strip()}"


def write_picture(path: Path, text: str) -> None:
    """Write ``--svg``.

    Raises:
        InvalidScenario: it can't be written there.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidScenario(f"--svg {path}: {os.strerror(error.errno or 0)}") from error
