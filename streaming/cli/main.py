"""``rebalance-monitor``: finds the command, runs it, turns errors into one line and an exit status.

What is slow to import is imported in functions: :func:`main` must be there before an early Ctrl-C is.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from assignors import __version__
from assignors.errors import MonitorError

if TYPE_CHECKING:
    import typer

#: Command → what `--help` says of it. The module of the same name in this package holds ``app``.
COMMANDS: dict[str, str] = {
    "demo": "Watch real rebalances on this machine: broker, consumers, Spark, diffs.",
    "run": "Collector, Spark job and feed against your cluster, in one process group.",
    "collect": "Follow __consumer_offsets and publish membership events.",
    "stream": "Run the Spark job: membership events in, diffs out.",
    "dlt": "Dead letters: list them, send them again.",
    "serve": "Serve the diffs over HTTP: a page, a live feed, JSON and metrics.",
    "watch": "Show diffs as they land.",
    "replay": "Compute the diffs of the membership log again, and compare.",
    "assign": "What Kafka would assign: one group a line in, one assignment a line out.",
    "partition": "Which partition a producer sends each key to.",
    "place": "Where Kafka would put the replicas of new partitions.",
    "simulate": "What a change will do under each rebalance protocol.",
    "check": "Whether an observed assignment, or a placement, keeps Kafka's rules.",
    "broker": "Run an embedded Kafka broker on this machine.",
    "topics": "Create and show the monitor's topics.",
    "config": "Show the settings in force, or check them against the cluster.",
    "doctor": "Check Java, jars, broker, permissions, topics and checkpoint, and say what to do.",
}


def _version(value: bool) -> None:
    import typer

    if value:
        typer.echo(f"rebalance-monitor {__version__}")
        raise typer.Exit


def _nothing() -> None:
    """Stands for a command that is listed but not called."""


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
            app.add_typer(import_module(f"streaming.cli.{name}").app, name=name, help=help_line)
        else:
            app.command(name, help=help_line)(_nothing)
    return app


def _said_of(called: str | None, message: str) -> str:
    """What a command without commands of its own says of a word too many, such as a file's name."""
    if called not in COMMANDS or not message.startswith("No such command"):
        return message
    if import_module(f"streaming.cli.{called}").app.registered_commands:
        return message
    word = message.removeprefix("No such command ").rstrip(".")
    return f"Unexpected argument {word}: `{called}` takes options only; see rebalance-monitor {called} --help"


def _unforeseen(error: Exception) -> str:
    """The system's own words, such as of a full disk; anything else is a mistake of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"unexpected {type(error).__name__}: {error}; please report it, with what --verbose adds"


def _leave_the_pipe() -> NoReturn:
    """The reader of our output is gone (`| head`): not an error; keep Python from flushing into the void."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def main() -> NoReturn:
    """Run the command line and end the process: 0 done, 1 a bad answer, 2 bad input, 3 a failure outside."""
    # Until there is something to end in order, Ctrl-C ends the process without a word.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import traceback

    import typer

    from streaming.process.children import follow_parent

    follow_parent()
    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = sys.argv[1:]
    called = next((word for word in arguments if not word.startswith("-")), None)
    try:
        status = build(called)(arguments or ["--help"], standalone_mode=False) or 0
        sys.stdout.flush()
        sys.exit(status)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        print(f"error: {_said_of(called, message)}", file=sys.stderr)
        sys.exit(2)
    except MonitorError as error:
        if "--verbose" in arguments:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        _leave_the_pipe()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer makes status 1 of it
            _leave_the_pipe()
        raise
    except Exception as error:  # noqa: BLE001 - the last resort: a person never meets a traceback
        if "--verbose" in arguments:
            traceback.print_exc()
        print(f"error: {_unforeseen(error)}", file=sys.stderr)
        sys.exit(3)
