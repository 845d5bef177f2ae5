"""Every command line in the documentation is valid."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from streaming.cli.main import COMMANDS, build
from streaming.settings.config import load
from tests.support.pem import certificate

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
#: Matches up to the end of a command in a shell or in Markdown.
COMMAND_LINE = re.compile(r"(?<![\w./-])rebalance-monitor ((?:'[^']*'|\"[^\"]*\"|[^'\"|&;<>`#\n\\…])+)")
CODE_SPAN = re.compile(r"`(rebalance-monitor [^`]+)`")
FENCED_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
GENERATED_PAGES = {"commands.md"}


def command_lines() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        text = "" if page.name in GENERATED_PAGES else page.read_text()
        lines = [line for line in text.splitlines() if line.startswith(("$ ", "| ", "rebalance-monitor"))]
        lines += [span.replace("\n", " ") for span in CODE_SPAN.findall(FENCED_BLOCK.sub("", text))]
        for line in lines:
            for command_line in COMMAND_LINE.findall(line):
                words = shlex.split(command_line.replace("NUMBER", "3"))
                if words and words[0] in COMMANDS:
                    yield page.name, words


CASES = sorted({(page, *words) for page, words in command_lines()})


@pytest.mark.parametrize("case", CASES, ids=[" ".join(case) for case in CASES])
def test_documented_command_is_accepted(case: tuple[str, ...]) -> None:
    _, name, *words = case
    command = get_command(build(name)).commands[name]  # type: ignore[attr-defined] # a group
    if words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if not words and command.no_args_is_help:
        return
    command.make_context(name, words)


def test_documents_have_examples_of_each_command() -> None:
    names = {name for _, name, *_ in CASES}
    assert names >= {"run", "why", "group", "groups", "watch", "what-if", "forecast", "explain"}


def test_the_example_of_settings_is_valid() -> None:
    settings = load(ROOT / "examples" / "monitor.toml")
    assert [target.name for target in settings.notify] == ["ops"]


SETTINGS_BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = [(page.name, block) for page in PAGES for block in SETTINGS_BLOCK.findall(page.read_text())]


@pytest.mark.parametrize(
    ("page", "block"), SETTINGS, ids=[f"{page}-{number}" for number, (page, _) in enumerate(SETTINGS)]
)
def test_documented_settings_are_valid(page: str, block: str, tmp_path: Path) -> None:
    certificate(tmp_path, "monitor")
    (tmp_path / "secret").write_text("secret")
    block = re.sub(r'"/[^"]*/monitor\.key"', f'"{tmp_path / "monitor.key"}"', block)
    block = re.sub(r'"/[^"]*\.pem"', f'"{tmp_path / "monitor.pem"}"', block)
    (tmp_path / "monitor.toml").write_text(re.sub(r'"/(run|etc)/[^"]*"', f'"{tmp_path / "secret"}"', block))
    load(tmp_path / "monitor.toml")
