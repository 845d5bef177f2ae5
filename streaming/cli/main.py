"""``rebalance-monitor``: finds the command, runs it, turns errors into one line and an exit status.

What is slow to import is imported in functions: :func:`main` must be there before an early Ctrl-C is.
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
from streaming.process.plain import warn

if TYPE_CHECKING:
    import typer

#: Command → the module of its Typer, where that has another name.
_MODULES: dict[str, str] = {
    **dict.fromkeys(("assign", "check", "partition", "place"), "questions"),
    **dict.fromkeys(("group", "why", "incidents"), "groups"),
    **dict.fromkeys(("migrate", "what-if"), "forecast"),
    **dict.fromkeys(("broker", "config", "dlt", "doctor", "topics"), "administration"),
    "replay": "watch",
}
#: Command → its line in `--help`. Its Typer has the same name, `_` for `-`.
COMMANDS: dict[str, str] = {
    "demo": "Watch real rebalances on this machine: broker, consumers, Spark, diffs.",
    "run": "Collector, Spark job and feed against your cluster, in one process group.",
    "collect": "Follow consumer groups and publish membership events.",
    "stream": "Run the Spark job: membership events in, diffs out.",
    "dlt": "Dead letters: list them, send them again.",
    "serve": "Serve the diffs over HTTP: a page, a live feed, JSON and metrics.",
    "watch": "Show diffs as they land.",
    "groups": "All groups: kind, state, members, downtime today, open incidents, and what happened last.",
    "group": "One group: who owns what, what is wrong, and its last episodes.",
    "why": "Why a group rebalanced: an episode told with its evidence.",
    "incidents": "What is wrong now: storms, stuck groups, partitions without an owner and more.",
    "what-if": "What would move if a live group changed, under every assignor.",
    "replay": "Compute the diffs of the membership log again, and compare.",
    "assign": "What Kafka would assign: one group a line in, one assignment a line out.",
    "partition": "Which partition a producer sends each key to.",
    "place": "Where Kafka would put the replicas of new partitions.",
    "simulate": "What a change will do under each rebalance protocol.",
    "forecast": "What a deploy of a live group will cost, under each protocol.",
    "migrate": "Whether a group is ready for another protocol, the steps, and what they cost.",
    "check": "Whether an observed assignment, or a placement, keeps Kafka's rules.",
    "broker": "Run an embedded Kafka broker on this machine.",
    "topics": "Create and show the monitor's topics.",
    "config": "Show the settings in force, or check them against the cluster.",
    "doctor": "Check Java, jars, broker, permissions, topics and checkpoint, and say what to do.",
}

#: Commands that serve or collect: they log to standard error and print no answer.
SERVICES = frozenset({"run", "collect", "stream", "serve", "broker"})


def _version(value: bool) -> None:
    import typer

    if value:
        typer.echo(f"rebalance-monitor {__version__}")
        raise typer.Exit


def _nothing() -> None:
    """Stands for a command that is listed but not called."""


def app_of(command: str) -> typer.Typer:
    """The command of this name, imported."""
    module = import_module(f"streaming.cli.{_MODULES.get(command, command)}")
    app: typer.Typer = getattr(module, command.replace("-", "_"))
    return app


def build(called: str | None) -> typer.Typer:
    """The command line with every command listed and only ``called`` imported: `--help` stays instant."""
    import typer

    version = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version.")

    def root(_: bool = version) -> None:
        """Who rebalanced, why, and what moved: the history of Kafka consumer-group rebalances."""

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
    )
    app.callback()(root)
    for name, help_line in COMMANDS.items():
        if name == called:
            app.add_typer(app_of(name), name=name, help=help_line)
        else:
            app.command(name, help=help_line)(_nothing)
    return app


def _said_of(called: str | None, message: str) -> str:
    """What a command without commands of its own says of a word too many, such as a file's name."""
    if called not in COMMANDS or not message.startswith("No such command"):
        return message
    if app_of(called).registered_commands:
        return message
    word = message.removeprefix("No such command ").rstrip(".")
    return f"Unexpected argument {word}: `{called}` takes options only; see rebalance-monitor {called} --help"


def _unforeseen(error: Exception) -> str:
    """What is told of an error that no part of the program foresaw: the system's own words where it has some.

    Only what can't come from outside is called a mistake of ours.
    """
    if isinstance(error, OSError):
        told = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {told}" if error.filename else told
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; ask for less, or give the process more"
    if isinstance(error, UnicodeError):
        return f"text that is not UTF-8: {error}"
    if type(error).__module__ == "sqlite3":
        return f"the history: {error}"
    return f"unexpected {type(error).__name__}: {error}; please report it, with what --verbose adds"


def _end(status: int, message: str, error: BaseException | None = None) -> NoReturn:
    """One line on standard error, with ``error`` its traceback before it; then the process ends."""
    if error is not None:
        for line in "".join(traceback.format_exception(error)).splitlines():
            warn(line)
    warn(f"error: {message}")
    _let_go_of_output()
    sys.exit(status)


def _let_go_of_output() -> None:
    """Output that can't be written (a full disk, a reader that is gone) must not fail once more as Python ends."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_the_pipe() -> NoReturn:
    """The reader of our output is gone (`| head`): not an error."""
    _let_go_of_output()
    sys.exit(0)


def _occupy_closed_descriptors() -> None:
    """Open /dev/null in place of closed standard streams.

    Otherwise the next file or socket would get the number of one of them, and child processes would write into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - standard error
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _print_anything() -> None:
    """Characters that the locale can't encode are escaped too."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # one that is closed is None
            stream.reconfigure(errors="backslashreplace")


def main() -> NoReturn:
    """Run the command line and end the process: 0 done, 1 a bad answer, 2 bad input, 3 a failure outside."""
    # Until there is something to end in order, Ctrl-C ends the process without a word.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import typer

    from streaming.process.children import follow_parent

    follow_parent()
    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _occupy_closed_descriptors()
    _print_anything()
    arguments = sys.argv[1:]
    verbose = "--verbose" in arguments
    called = next((word for word in arguments if not word.startswith("-")), None)
    if sys.stdout is None and called not in SERVICES:
        _end(3, "Standard output is closed; give it a file or a pipe.")
    try:
        status = build(called)(arguments or ["--help"], standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(status)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        _end(2, _said_of(called, message))
    except MonitorError as error:
        _end(error.exit_status, str(error), error if verbose else None)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        _leave_the_pipe()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer makes status 1 of it
            _leave_the_pipe()
        raise
    except Exception as error:  # noqa: BLE001 - the last resort: a person never meets a traceback
        _end(2 if isinstance(error, UnicodeError) else 3, _unforeseen(error), error if verbose else None)
