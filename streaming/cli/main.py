"""Entry point ``rebalance-monitor``: runs the command, and turns errors into one line and an exit status.

Modules that are slow to import are imported in functions, so that :func:`main` runs before an early Ctrl-C arrives.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from assignors import __version__
from assignors.errors import MonitorError
from streaming.process import warn

if TYPE_CHECKING:
    import typer

#: Commands in the order of `--help`: panel, module in ``streaming.cli``, and one-line description. In its module a
#: command's function has the same name, with `_` for `-`.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("Run", "demo", "Run real rebalances on this machine and show each diff."),
    "run": ("Run", "services", "Run collector, Spark job and web service on one machine."),
    "collect": ("Run", "services", "Publish the membership events of consumer groups."),
    "stream": ("Run", "stream", "Run the Spark job: membership events in, diffs and episodes out."),
    "serve": ("Run", "services", "Serve the page, the live feed, the JSON API and the metrics."),
    "notify": ("Run", "integrations", "Send incidents to Slack, Teams, PagerDuty, Opsgenie or webhooks."),
    "otlp": ("Run", "integrations", "Export episodes as OpenTelemetry spans."),
    "mcp": ("Run", "integrations", "Answer an assistant's questions over MCP."),
    "groups": ("Ask", "groups", "List all groups: state, members, downtime today, last episode."),
    "group": ("Ask", "groups", "Show one group: members, partitions, incidents, last episodes."),
    "owner": ("Ask", "groups", "Show who owns a partition, since when and why."),
    "why": ("Ask", "episodes", "Explain why a group rebalanced, with evidence and downtime."),
    "incidents": ("Ask", "incidents", "List open incidents: storms, stuck groups and more."),
    "cost": ("Ask", "episodes", "Show what rebalances cost: downtime, delayed messages, lag."),
    "compare": ("Ask", "episodes", "Compare two episodes, such as a deploy before and after a change."),
    "report": ("Ask", "report", "Write a report of an episode or the cluster into one file."),
    "top": ("Ask", "groups", "Follow the groups in the worst status first."),
    "watch": ("Ask", "watch", "Follow the diffs of all groups, or of one."),
    "advise": ("Plan", "advise", "Advise what to change in a group, by its own history."),
    "what-if": ("Plan", "what_if", "Compute which partitions would move if a group changed."),
    "forecast": ("Plan", "forecast", "Forecast the cost of a deploy of a live group."),
    "migrate": ("Plan", "forecast", "Check whether a group can change its rebalance protocol, and how."),
    "simulate": ("Plan", "simulate", "Simulate a scenario under each rebalance protocol."),
    "doctor": ("Operate", "doctor", "Check Java, jars, broker, permissions, topics and checkpoint."),
    "config": ("Operate", "administration", "Show the effective settings, or check them against the cluster."),
    "topics": ("Operate", "administration", "Show or create the monitor's topics."),
    "dlt": ("Operate", "administration", "List dead letters, or publish them again."),
    "record": ("Operate", "replay", "Record a group's events and outputs in one file."),
    "replay": ("Operate", "replay", "Compute the diffs from the membership log again and compare them."),
    "broker": ("Operate", "administration", "Run an embedded Kafka broker on this machine."),
    "explain": ("Offline", "explain", "Explain the rebalances in logs of brokers and clients."),
    "assign": ("Offline", "assignment", "Compute the assignments that Kafka would make."),
    "check": ("Offline", "checking", "Check assignments and replica placements against Kafka's rules."),
    "partition": ("Offline", "partitioning", "Compute the partition that a producer would choose for each key."),
    "place": ("Offline", "checking", "Compute the replica placement of new partitions."),
}
#: Commands that run until they are stopped: they log to standard error and do not print an answer.
SERVICES = frozenset({"run", "collect", "stream", "serve", "notify", "otlp", "mcp", "broker"})


def _version(value: bool) -> None:
    import typer

    if value:
        typer.echo(f"rebalance-monitor {__version__}")
        raise typer.Exit


def build(command_name: str | None) -> typer.Typer:
    """Return the command line: every command is listed, but only ``command_name`` is imported: `--help` is fast.

    The list of commands is in panels. A command's own help is plain text, as Rich would cut long option names.
    """
    import typer

    version = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version.")

    def root(_: bool = version) -> None:
        """Show who rebalanced, why, and what moved: the history of Kafka consumer-group rebalances.

        rebalance-monitor COMMAND --help explains a command and has an example.
        """

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        rich_markup_mode=None if command_name in COMMANDS else "rich",
        epilog="Example: rebalance-monitor demo",
    )
    app.callback()(root)
    for name, (panel, module_name, line) in COMMANDS.items():
        if name != command_name:
            app.command(name, help=line, rich_help_panel=panel)(lambda: None)  # the command is only listed
            continue
        command = getattr(import_module(f"streaming.cli.{module_name}"), name.replace("-", "_"))
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, epilog=command.epilog)(command)
    return app


def _unexpected_error_text(error: Exception) -> str:
    """Return the message of an unexpected error, or the operating system's message if the error has one."""
    if isinstance(error, OSError):
        problem = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {problem}" if error.filename else problem
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; ask for less, or give the process more"
    if isinstance(error, UnicodeError):
        return f"text that is not UTF-8: {error}"
    if type(error).__module__ == "sqlite3":
        return f"the history: {error}"
    return f"unexpected {type(error).__name__}: {error}; please report it, with what --verbose adds"


def _exit(status: int, message: str, error: BaseException | None = None) -> NoReturn:
    if error is not None:
        for line in "".join(traceback.format_exception(error)).splitlines():
            warn(line)
    warn(f"error: {message}")
    _discard_output()
    sys.exit(status)


def _discard_output() -> None:
    """Discard output that can't be written (a full disk, a closed pipe), so that Python's exit does not fail."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_standard_streams() -> None:
    """Open /dev/null in place of closed standard streams; open streams escape characters that the locale can't encode.

    Without this, the next file or socket gets the number of a closed stream, and child processes write into this file.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a closed stream is None
            stream.reconfigure(errors="backslashreplace")
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - standard error
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def main() -> NoReturn:
    """Run the command line; exit with 0 (done), 1 (a bad answer), 2 (bad input) or 3 (a failure outside)."""
    # Until a command needs an orderly end, Ctrl-C ends the process without a message.
    handles_interrupt = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_interrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import typer

    from streaming.process.children import end_with_parent

    end_with_parent()
    if handles_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _prepare_standard_streams()
    arguments = sys.argv[1:]
    verbose = "--verbose" in arguments
    command_name = next((word for word in arguments if not word.startswith("-")), None)
    if sys.stdout is None and command_name not in SERVICES:
        _exit(3, "Standard output is closed; give it a file or a pipe.")
    try:
        status = build(command_name)(arguments or ["--help"], standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(status)
    except typer.TyperException as error:
        _exit(2, error.format_message() if hasattr(error, "format_message") else str(error))
    except MonitorError as error:
        _exit(error.exit_status, str(error), error if verbose else None)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except (BrokenPipeError, SystemExit) as end:
        # typer turns a broken pipe into SystemExit
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        _discard_output()
        sys.exit(0)  # the reader of the output is gone (`| head`), which is not an error
    except Exception as error:  # noqa: BLE001 - the last resort, so that users never get a traceback
        _exit(2 if isinstance(error, UnicodeError) else 3, _unexpected_error_text(error), error if verbose else None)
