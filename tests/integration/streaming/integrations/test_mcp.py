"""The MCP server as a child process, called over stdio by the client of the MCP SDK."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, Tool

from streaming.records.codec import encode
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import Retention
from streaming.serve.records import TopicRecord
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import FLAPPY_INCIDENTS, RESTARTED_MS, STARTED_MS, checkout_group, episode_updates, latest
from tests.support.feed import ASSIGNMENTS, DIFFS, MemorySource, story
from tests.support.feed_server import RunningServer, running
from tests.support.wait import eventually

GROUP = "team/checkout"


def put_group(source: MemorySource, builder: DiffBuilder) -> None:
    """Write the diffs and the latest assignment of a group."""
    group_id = builder.group_id

    def put(topic: str, value: bytes, ce_id: str | None) -> None:
        source.put(TopicRecord(topic, 0, len(source.log), group_id.encode(), value, ce_id))

    for ce_id, diff in builder.diffs:
        put(DIFFS, encode(diff), f"{group_id}/{ce_id}")
    put(ASSIGNMENTS, encode(latest(builder)), None)


def write_demo_records(source: MemorySource) -> None:
    builder = checkout_group(GROUP)
    put_group(source, builder)
    for episode in episode_updates(builder):
        rounds = [f"{GROUP}/{ce_id}" for ce_id in episode.rounds]
        source.put(story(msgspec.structs.replace(episode, rounds=rounds), offset=len(source.log)))
    for incident in FLAPPY_INCIDENTS:
        source.put(story(incident, offset=len(source.log)))


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    source = MemorySource()
    write_demo_records(source)
    history = tmp_path_factory.mktemp("mcp") / "h.sqlite"
    with running(ServeOptions(history, port=0, limits=Retention(2**50, 2**40)), source) as feed:
        eventually(lambda: len(feed.get("/api/v1/incidents")["incidents"]) == 3)
        eventually(lambda: len(feed.get(f"/api/v1/groups/{GROUP}/episodes")["episodes"]) == 2)
        yield feed


def call_tools(feed: RunningServer, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Tool], list[CallToolResult]]:
    """Return the tools that an MCP server lists, and its responses to one session's requests."""

    async def session() -> tuple[list[Tool], list[CallToolResult]]:
        arguments = ["-m", "streaming", "mcp", "--url", feed.server.address]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments, cwd=Path.cwd())) as client:
            listed = await client.list_tools()
            return listed.tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(session)


def result_text(result: CallToolResult) -> str:
    (content,) = result.content
    return str(content.text)


def answered(result: CallToolResult) -> Any:
    return json.loads(result_text(result))


PickFunction = Callable[[Any], Any]
GROUP_ARGS = {"group": GROUP}
#: Question, tool, arguments, the compared part of the response, and the expected value.
QUESTIONS: list[tuple[str, str, dict[str, Any], PickFunction, Any]] = [
    ("which groups are there", "groups", {}, lambda a: [g["groupId"] for g in a["groups"]], [GROUP]),
    ("how is it", "groups", {}, lambda a: a["groups"][0]["status"], "stable"),
    ("how many members has it", "group", GROUP_ARGS, lambda a: len(a["assignment"]["members"]), 3),
    ("who owns t-0", "group", GROUP_ARGS, lambda a: owner(a["assignment"], "t", 0), "web@h1#1=web-0"),
    ("by which protocol", "group", GROUP_ARGS, lambda a: a["assignment"]["protocol"], "classic"),
    ("why did it rebalance", "episodes", GROUP_ARGS, lambda a: a["episodes"][0]["kind"], "rolling-restart"),
    ("since when is the evidence", "episodes", GROUP_ARGS, lambda a: a["episodes"][0]["episode"], 2),
    ("when did the restart begin", "episodes", GROUP_ARGS, lambda a: a["episodes"][0]["openedAt"], RESTARTED_MS),
    ("what was before", "episodes", GROUP_ARGS, lambda a: a["episodes"][1]["kind"], "first-start"),
    ("until when", "episodes", GROUP_ARGS | {"to": RESTARTED_MS}, lambda a: a["episodes"][0]["openedAt"], STARTED_MS),
    ("what did it cost", "episodes", GROUP_ARGS, lambda a: a["episodes"][0]["cost"], None),
    ("how many rounds", "rounds", GROUP_ARGS | {"view": "summary"}, lambda a: len(a["rounds"]), 5),
    ("which of them last", "rounds", GROUP_ARGS | {"limit": 1}, lambda a: len(a["rounds"]), 1),
    (
        "all groups' rounds",
        "all_rounds",
        {"min_moved": 1},
        lambda a: {r["summary"]["groupId"] for r in a["rounds"]},
        {GROUP},
    ),
    ("who owned what when", "timeline", GROUP_ARGS, lambda a: len(a["rounds"]), 5),
    ("what is wrong", "all_incidents", {"open": True}, lambda a: [i["incident"] for i in a["incidents"]], [3, 2]),
    ("what was wrong", "all_incidents", {"open": False}, lambda a: [i["kind"] for i in a["incidents"]], ["skew"]),
    ("is this group wrong", "incidents", GROUP_ARGS, lambda a: a["incidents"], []),
    ("what if one came", "what_if", GROUP_ARGS | {"add": "1"}, lambda a: "error" in a or bool(a), True),
    ("what would help", "advice", GROUP_ARGS, lambda a: {advice["groupId"] for advice in a["advice"]} <= {GROUP}, True),
]


def owner(assignment: Any, topic: str, partition: int) -> str | None:
    members = assignment["members"].items()
    return next((name for name, member in members if partition in member.get(topic, [])), None)


def test_each_get_endpoint_of_the_api_is_a_tool(feed: RunningServer) -> None:
    tools, _ = call_tools(feed)
    paths = feed.get("/api/v1/openapi.json")["paths"]
    assert {tool.name for tool in tools} == {path["get"]["operationId"] for path in paths.values()} - {"stream"}
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    schema = next(tool for tool in tools if tool.name == "episodes").input_schema
    assert (schema["required"], schema["additionalProperties"]) == (["group"], False)


def test_golden_questions_are_answered(feed: RunningServer) -> None:
    _, answers = call_tools(feed, *((tool, arguments) for _, tool, arguments, _, _ in QUESTIONS))
    answers_by_question = {
        question[0]: question[3](answered(result)) for question, result in zip(QUESTIONS, answers, strict=True)
    }
    assert answers_by_question == {question[0]: question[4] for question in QUESTIONS}


def test_invalid_tool_call_gets_an_error_message(feed: RunningServer) -> None:
    calls = (("episodes", {}), ("groups", {"colour": "red"}), ("delete", {}), ("group", {"group": "none"}))
    _, answers = call_tools(feed, *calls)
    assert [result.is_error for result in answers] == [True] * 4
    texts = [result.content[0].text for result in answers]
    assert texts[0] == "arguments: unknown: none; missing: group"
    assert texts[1] == "arguments: unknown: colour; missing: none"
    assert texts[2].startswith("no tool 'delete'; there are ")
    assert "no group 'none' is known" in texts[3]


def test_answers_have_bounded_sizes(tmp_path: Path) -> None:
    source, options = MemorySource(), ServeOptions(tmp_path / "h.sqlite", port=0, limits=Retention(2**50, 2**40))
    put_group(source, DiffBuilder(3000, group_id="large").join(*(f"worker-{n}@h{n}#1" for n in range(3000))))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("group", {"group": "large"}),
        ("rounds", {"group": "large"}),
        ("search", {"q": "t-17"}),
    ]
    with running(options, source) as feed:
        eventually(lambda: len(feed.get("/api/v1/groups")["groups"]) == 1)
        _, (group, rounds, search) = call_tools(feed, *calls)
    sizes = [
        re.fullmatch(r"the answer has (\d+) bytes, more than 200000: (.*)", result_text(r)) for r in (group, rounds)
    ]
    assert [(group.is_error, rounds.is_error), *(size and size[2] for size in sizes)] == [
        (True, True),
        "ask another tool, such as search",
        "ask for less with limit, from, to, view",
    ]
    [match] = answered(search)["found"]
    assert (match["topic"], match["partition"], len(match["owners"])) == ("t", 17, 1)
