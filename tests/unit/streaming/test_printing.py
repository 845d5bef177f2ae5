import ast
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

import streaming
from streaming.cli import (
    administration,
    assignment,
    checking,
    demo,
    diff_lines,
    episodes,
    groups,
    output,
    simulate,
    stream,
)
from streaming.demo.agreement import ReportComparison
from streaming.demo.runner import DemoSummary
from streaming.kafka.dead_letters import DeadLetter
from streaming.kafka.diff_reader import DiffRecord, MalformedDiff
from streaming.kafka.topics import MonitorTopic
from streaming.monitor.bucket_state import TrackedGroup
from streaming.monitor.state import GroupState
from streaming.process import escape_unprintable, warn
from streaming.process.service import configure_logging
from streaming.process.terminal import console, show
from streaming.recording.overview import GroupOverview
from streaming.records.diffs import Cause, Diff, LatestAssignment, MemberNames
from streaming.records.episodes import Episode, EpisodeMembers, EpisodeRecord, Replaced
from streaming.records.events import Evidence
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from streaming.spark.state import InspectedGroup
from tests.support.compacted import checkout_group, episode_records
from tests.support.histories import change, sample

ROOT = Path(streaming.__file__).parent
#: Sets a title, clears the screen, fakes a line, reverses text, and resembles rich's markup and an emoji's name.
HOSTILE_NAME = "a\x1b]0;owned\x07\x1b[2J\nerror: forged\r\x9b31m\u202e\u2028[red]b[/red]:smile:"


def question(name: str, **more: object) -> bytes:
    members = [
        {"memberId": name, "topics": [name], "owned": {name: [0, 1]}, "generation": 1},
        {"memberId": f"{name}2", "topics": [name]},
    ]
    return json.dumps({"topics": {name: {"partitions": 2}}, "members": members, **more}).encode()


def diff(name: str) -> Diff:
    return sample(
        group_id=name,
        assignor=name,
        cause=Cause(kind=name, member_ids=[name], evidence=[Evidence(source=name, reason=name)]),
        members={
            name: change(revoked={name: [1]}, assigned={name: [0]}, kept={name: [2]}),
            "plain": change(present=False),
        },
        unassigned={name: [2]},
        violations=[name],
    )


def tables(shape: output.TableShape, answer: Callable[[bytes], object], line: bytes) -> None:
    output.writer(shape, as_json=False, as_table=True)(answer(line))


def forecasts(name: str) -> None:
    document = {"topics": {name: 2}, "events": [{"at": 0, "join": "a", "topics": [name], "rack_id": name}]}
    plan = load_scenario(json.dumps(document))
    show(simulate.simulation_lines([run_scenario(plan, "eager")], 3))


def hostile_episode(name: str) -> Episode:
    names = {member_id: MemberNames(client_id=name, client_host=name) for member_id in (name, f"{name}2")}
    members = EpisodeMembers(
        joined=[name],
        left=["x" + name],
        replaced=[Replaced(left=name, joined=f"{name}2", by=name), Replaced(left=f"{name}3", joined="z", by="")],
        names=names,
    )
    episode = episode_records(checkout_group())[0].episode
    evidence = [Evidence(source=name, reason=name, member_ids=[name])]
    return structs.replace(episode, group_id=name, members=members, evidence=evidence, story=name)


def hostile_group(name: str) -> GroupOverview:
    assignment = LatestAssignment(
        group_id=name,
        protocol=name,
        assignor=name,
        generation=1,
        group_epoch=None,
        timestamp=0,
        members={name: {name: [0]}, f"{name}2": {}},
        names={name: MemberNames(group_instance_id=name, client_host=name)},
        standby={name: {name: [1]}},
    )
    return GroupOverview(assignment, [EpisodeRecord(hostile_episode(name), b"")])


def terminal_view(name: str) -> None:
    with demo.DemoView(as_json=False, clock=lambda: 0.0) as view:
        view.stage(name)
        view.step(name)
        view.diff(DiffRecord("1", diff(name), b"", 0, 0))
    view.summary(DemoSummary([diff(name)], ReportComparison(1, (name,))))


def log_line(name: str) -> None:
    configure_logging()
    logging.getLogger(name).warning("said %s", name)
    error = ValueError(name)
    error.__cause__ = OSError(name)
    logging.getLogger("x").error("of %s", name, exc_info=error)


RENDERERS: dict[str, Callable[[str], None]] = {
    "assign": lambda n: tables("assignment", assignment.assignment_answer, question(n, assignor="range")),
    "assign --explain": lambda n: tables(
        "assignment", lambda line: assignment.assignment_answer(line, explained=True), question(n, assignor="sticky")
    ),
    "assign --compare": lambda n: tables("comparison", assignment.comparison_answer, question(n)),
    "check": lambda n: tables(
        "check", checking.check_answer, question(n, assignor="range", assignment={n: {n: [0, 7]}, "gone": {n: [1]}})
    ),
    "an error in a table": lambda n: output.writer("assignment", as_json=False, as_table=True)(
        {"error": {"type": n, "message": n}}
    ),
    "watch": lambda n: diff_lines.print_diffs([DiffRecord("1", diff(n), b"", 0, 0)], as_json=False),
    "groups": lambda n: show([groups.group_table([hostile_group(n)])]),
    "group": lambda n: show(groups.group_lines(hostile_group(n), 0)),
    "why": lambda n: show(episodes.episode_lines(hostile_episode(n), 0)),
    "a record that is skipped": lambda n: output.warn_skipped(MalformedDiff(n)),
    "dlt list": lambda n: show(
        [administration.dead_letter_table([DeadLetter(0, 1, n, n, n, 0, 1, n.encode(), b"", [])])]
    ),
    "topics": lambda n: show([administration.topic_table([MonitorTopic(n, n, n, 1, 1, n)])]),
    "stream inspect-state": lambda n: show([stream.state_table([InspectedGroup(0, n, 9, tracked(n))])]),
    "simulate": forecasts,
    "demo": terminal_view,
    "the log": log_line,
    "an error": lambda n: warn(f"error: {n}"),
}


def tracked(name: str) -> TrackedGroup:
    tracked_group = TrackedGroup()
    tracked_group.state = GroupState(protocol=name, assignor=name)
    return tracked_group


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_hostile_name_looks_like_the_same_name_escaped(
    renderer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setenv("COLUMNS", "300")
    printed_outputs = []
    for name in (HOSTILE_NAME, escape_unprintable(HOSTILE_NAME)):
        RENDERERS[renderer](name)
        printed_outputs.append("".join(capsys.readouterr()))
    output_with_hostile_name, escaped_output = printed_outputs
    assert escape_unprintable(HOSTILE_NAME)[:12] in output_with_hostile_name
    assert [line for line in output_with_hostile_name.split("\n") if not line.isprintable()] == []
    assert output_with_hostile_name == escaped_output


#: Modules besides ``process/__init__.py`` and ``process/terminal.py`` that write to a terminal or a pipe.
WRITERS = {
    "cli/output.py": "JSON Lines for programs; a count",
    "cli/main.py": "lets go of an output that is gone",
    "demo/consumer.py": "JSON Lines for the demo",
    "kafka/jars.py": "names of jars, each printable, on a line that renews itself",
    "process/supervisor.py": "a script that imports nothing of ours; the system's words for a command of ours",
    "process/service.py": "the handler of the log, whose formatters escape",
    "process/watchdog.py": "a script that imports nothing of ours; its own words",
}


def _writes(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"rich.console", "rich.text", "rich.markup"}:
            return True
        if isinstance(node, ast.Name) and node.id == "print":
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {
            *("sys.stdout", "sys.stderr", "typer.echo", "typer.secho", "traceback.print_exc"),
            *("logging.basicConfig", "logging.Formatter", "logging.StreamHandler"),
        }:
            return True
    return False


def test_only_the_output_module_prints() -> None:
    paths = [path for path in ROOT.rglob("*.py") if _writes(ast.parse(path.read_text()))]
    assert {path.relative_to(ROOT).as_posix() for path in paths} == {
        "process/__init__.py",
        "process/terminal.py",
        *WRITERS,
    }


def test_json_output_is_unchanged(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    value = json.dumps({"groupId": HOSTILE_NAME}, ensure_ascii=False).encode()
    diff_lines.print_diffs([DiffRecord("1", diff("g"), value, 0, 0)], as_json=True)
    assert capfdbinary.readouterr().out == value + b"\n"


def test_a_record_of_several_lines_is_one_line_of_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    value = json.dumps({"groupId": "g", "more": [1, {}]}, indent=2).encode()
    diff_lines.print_diffs([DiffRecord("1", diff("g"), value, 0, 0)], as_json=True)
    assert capfdbinary.readouterr().out == b'{"groupId":"g","more":[1,{}]}\n'


def test_markup_is_printed_as_plain_text() -> None:
    screen = console()
    screen.file = io.StringIO()
    screen.print("[bold]a[/bold] :smile:", "[link=http://x]b")
    assert screen.file.getvalue() == "[bold]a[/bold] :smile: [link=http://x]b\n"
