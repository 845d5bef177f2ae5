import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from streaming.records.codec import encode
from streaming.serve.api import GroupApi, document
from streaming.serve.history import History
from streaming.serve.problems import PROBLEM_KINDS
from tests.support.asgi import ask
from tests.support.compacted import checkout_group
from tests.support.feed import assignment, records, service, stories, story
from tests.support.histories import Group
from tests.support.incidents import incident
from tests.support.scripts import ROOT


def plain() -> dict[str, Any]:
    return json.loads(encode(document()))


def test_the_document_is_valid() -> None:
    validate(plain())


def test_openapi_document_lists_every_api_route() -> None:
    served = {
        re.sub(r":\w+", "", route.path)
        for route in GroupApi.routes(GroupApi.__new__(GroupApi))
        if isinstance(route, Route) and route.path != "/api/v1/openapi.json"
    }
    assert served == set(plain()["paths"])


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/groups", "/api/v1/groups"),
        ("/api/v1/groups/{group}", "/api/v1/groups/g"),
        ("/api/v1/groups/{group}/rounds", "/api/v1/groups/g/rounds?limit=3"),
        ("/api/v1/groups/{group}/rounds/{seq}", "/api/v1/groups/g/rounds/2"),
        ("/api/v1/groups/{group}/compare/{before}/{after}", "/api/v1/groups/g/compare/1/2"),
        ("/api/v1/groups/{group}/episodes", "/api/v1/groups/g/episodes"),
        ("/api/v1/groups/{group}/incidents", "/api/v1/groups/g/incidents"),
        ("/api/v1/groups/{group}/timeline", "/api/v1/groups/g/timeline"),
        ("/api/v1/groups/{group}/forecast", "/api/v1/groups/g/forecast?parallel=2&processing_ms=0"),
        ("/api/v1/groups/{group}/migrate", "/api/v1/groups/g/migrate?to=consumer"),
        ("/api/v1/groups/{group}/what-if", "/api/v1/groups/g/what-if?add=2"),
        ("/api/v1/groups/{group}/advice", "/api/v1/groups/g/advice"),
        ("/api/v1/groups/{group}", "/api/v1/groups/g?at=2100-01-01"),
        ("/api/v1/groups", "/api/v1/groups?at=2100-01-01&limit=1"),
        ("/api/v1/annotations", "/api/v1/annotations"),
        ("/api/v1/search", "/api/v1/search?q=t-1"),
        ("/api/v1/search", "/api/v1/search?q=pay"),
        ("/api/v1/incidents", "/api/v1/incidents?open=true"),
        ("/api/v1/rounds", "/api/v1/rounds?view=summary"),
    ],
)
def test_responses_match_their_description(history: History, path: str, target: str) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(12)))
    described = plain()
    schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    whole = {**schema, "components": described["components"]}
    history.append([*stories(checkout_group("g")), story(incident("g")), assignment(checkout_group("g"))])
    app = service(history)
    Draft202012Validator(whole).validate(ask(app, target).json)


def test_problems_are_as_described_and_their_type_is_served(history: History) -> None:
    described, app = plain(), service(history)
    whole = {"$ref": "#/components/schemas/Problem", "components": described["components"]}
    problem = ask(app, "/api/v1/groups/none").json
    Draft202012Validator(whole).validate(problem)
    page, _, fragment = problem["type"].partition("#")
    assert f'id="{fragment}"' in ask(app, page).body.decode()


def test_every_operation_lists_the_answers_of_every_problem() -> None:
    described = plain()
    statuses = {str(status.value) for status, _ in PROBLEM_KINDS.values()}
    assert {tuple(sorted(path["get"]["responses"])) for path in described["paths"].values() if "get" in path} == {
        tuple(sorted(statuses | {"200"}))
    }
    texts = " ".join(response["description"] for response in described["components"]["responses"].values())
    assert all(f"`{name}`" in texts for name in PROBLEM_KINDS)


def test_parameters_have_one_naming_and_are_in_the_docs() -> None:
    docs = (ROOT / "docs/reference/api.md").read_text()
    for path, operations in plain()["paths"].items():
        assert f"`{path.replace('{group}', '{id}')}`" in docs
        for parameter in operations["get"]["parameters"]:
            if parameter["in"] == "query":
                assert re.fullmatch(r"[a-z]+(_[a-z]+)*", parameter["name"])
                assert f"`{parameter['name']}`" in docs
    assert all(f"`{name}`" in docs for name in PROBLEM_KINDS)
