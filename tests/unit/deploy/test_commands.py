import pytest
from typer.main import get_command

from streaming.cli.main import build
from tests.support.manifests import ROOT, commands

CASES = dict(commands())
SYSTEMD_COMMANDS = {
    path.name: line.partition("=")[2].split()[1:]
    for path in sorted((ROOT / "deploy" / "systemd").glob("*.service"))
    for line in path.read_text().splitlines()
    if line.startswith("ExecStart=")
}


def options_by_command(prefix: str) -> dict[str, set[str]]:
    """Return the options of each command in the manifests whose path begins with ``prefix``, without ``--config``."""
    commands = [arguments for file_name, arguments in CASES.items() if file_name.startswith(prefix)]
    return {
        name: set(
            " ".join(options).replace("=", " ").replace("--config /etc/rebalance-monitor/monitor.toml", "").split()
        )
        for name, *options in commands
    }


def test_chart_and_compose_start_the_same_commands() -> None:
    chart = options_by_command("base") | options_by_command("stream-local")
    compose = options_by_command("docker-compose.yml")
    chart["stream"] -= {"--master", "local[2]"}
    assert chart == compose


@pytest.mark.parametrize(
    ("file_name", "arguments"), [*CASES.items(), *SYSTEMD_COMMANDS.items()], ids=[*CASES, *SYSTEMD_COMMANDS]
)
def test_deployed_command_uses_known_options(file_name: str, arguments: list[str]) -> None:
    name, *options = arguments
    command = get_command(build(name)).commands[name]  # type: ignore[attr-defined] # a group
    known_options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used_options = {option.partition("=")[0] for option in options if option.startswith("--")}
    assert used_options <= known_options, file_name
