from __future__ import annotations

import pytest
from typer.main import get_command

from streaming.cli.main import build
from tests.support.manifests import commands

CASES = dict(commands())


def test_every_component_is_deployed_in_both_ways() -> None:
    kubernetes = {arguments[0] for where, arguments in CASES.items() if where.startswith("deploy/")}
    compose = {arguments[0] for where, arguments in CASES.items() if where.startswith("docker-compose")}
    assert kubernetes == compose == {"topics", "collect", "stream", "serve"}


@pytest.mark.parametrize("where", CASES)
def test_the_command_takes_its_options(where: str) -> None:
    name, *options = CASES[where]
    command = get_command(build(name)).commands[name]  # type: ignore[attr-defined] # a group
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {option.partition("=")[0] for option in options if option.startswith("--")}
    assert given <= known
