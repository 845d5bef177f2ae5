"""Every option of every command: its words, type, bounds, default and help, as they were.

A change here is a change for those who wrote scripts: ``WRITE_RECORDED=1`` writes ``surface.json`` anew, and
CHANGELOG.md says what is new.
"""

from __future__ import annotations

import json
import os
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo, TyperInfo

from streaming.cli.main import COMMANDS, app_of

GOLDEN = Path(__file__).with_name("surface.json")
SAID = (
    "param_decls",
    "help",
    "metavar",
    "min",
    "max",
    "show_default",
    "envvar",
    "is_eager",
    "hidden",
    "clamp",
)


def option(parameter: Parameter) -> dict[str, Any]:
    """What a command is told of one of its options, where it is not as it mostly is."""
    assert get_origin(parameter.annotation) is not None, f"{parameter.name}: no Annotated"
    kind, info = get_args(parameter.annotation)[:2]
    assert isinstance(info, ArgumentInfo | OptionInfo)
    said = {name: getattr(info, name) for name in SAID}
    usual = type(info)(default=...)
    found = {name: value for name, value in said.items() if value != getattr(usual, name)}
    words = [str(word) for word in (info.default, *(info.param_decls or ())) if word is not ...]
    return {"words": words, "type": str(kind), "default": repr(parameter.default), **found}


def plain(value: object) -> object:
    """None where Typer keeps a default of its own."""
    return value if isinstance(value, str | bool) else None


def told(command: TyperInfo | CommandInfo) -> dict[str, Any]:
    """A command's help, its example and its options."""
    function = command.callback
    assert function is not None
    return {
        "help": function.__doc__,
        "epilog": plain(command.epilog),
        "settings": str(command.context_settings) if isinstance(command.context_settings, dict) else None,
        "options": {
            one.name: option(one)
            for one in signature(function).parameters.values()
            if one.annotation is not typer.Context
        },
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_what_it_took(name: str) -> None:
    app = app_of(name)
    found = {
        "metavar": plain(app.info.subcommand_metavar),
        "alone": plain(app.info.invoke_without_command),
        **({"itself": told(app.registered_callback)} if app.registered_callback else {}),
        "commands": {str(one.name): told(one) for one in app.registered_commands},
    }
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("WRITE_RECORDED"):
        GOLDEN.write_text(json.dumps(known | {name: found}, indent=1, ensure_ascii=False) + "\n")
    assert json.loads(json.dumps(found)) == json.loads(GOLDEN.read_text())[name]
