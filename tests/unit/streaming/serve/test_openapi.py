from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from streaming.records.codec import encode
from streaming.serve.api import Api, document
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from tests.support.asgi import ask
from tests.support.compacted import checkout, latest
from tests.support.feed import ASSIGNMENTS, records, service, stories, story
from tests.support.histories import Group
from tests.support.incidents import incident


def plain() -> dict[str, Any]:
    return json.loads(encode(document()))


def test_the_document_is_valid() -> None:
    validate(plain())


def test_it_describes_every_route_and_no_other() -> None:
    served = {
        re.sub(r":\w+", "", route.path)
        for route in Api.routes(Api.__new__(Api))
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
        ("/api/v1/groups/{group}/episodes", "/api/v1/groups/g/episodes"),
        ("/api/v1/groups/{group}/incidents", "/api/v1/groups/g/incidents"),
        ("/api/v1/groups/{group}/timeline", "/api/v1/groups/g/timeline"),
        ("/api/v1/groups/{group}/forecast", "/api/v1/groups/g/forecast?parallel=2&processing_ms=0"),
        ("/api/v1/groups/{group}/migrate", "/api/v1/groups/g/migrate?to=consumer"),
        ("/api/v1/groups/{group}/what-if", "/api/v1/groups/g/what-if?add=2"),
        ("/api/v1/groups/{group}/advice", "/api/v1/groups/g/advice"),
        ("/api/v1/incidents", "/api/v1/incidents?open=true"),
        ("/api/v1/rounds", "/api/v1/rounds?view=summary"),
    ],
)
def test_answers_are_as_described(history: History, path: str, target: str) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(12)))
    described = plain()
    schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    whole = {**schema, "components": described["components"]}
    history.append([*stories(checkout("g")), story(incident("g"))])
    history.append([TopicRecord(ASSIGNMENTS, 0, 0, b"g", encode(latest(checkout("g"))), None)])
    app = service(history)
    Draft202012Validator(whole).validate(ask(app, target).json)


def test_problems_are_as_described(history: History) -> None:
    described = plain()
    whole = {"$ref": "#/components/schemas/Problem", "components": described["components"]}
    Draft202012Validator(whole).validate(ask(service(history), "/api/v1/groups/none").json)
