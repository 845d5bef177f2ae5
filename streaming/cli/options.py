"""Options and commands' common set-up: settings, session, log; times and durations as people write them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from assignors.errors import BadInput
from streaming.wire.events import MAX_TIMESTAMP

if TYPE_CHECKING:
    from streaming.settings.config import Settings


BootstrapServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers", metavar="HOST:PORT", help="The cluster.", show_default="127.0.0.1:9092"
    ),
]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML.")]
TopicPrefix = Annotated[
    str | None, typer.Option("--topic-prefix", help="Stands literally before each topic name.")
]
LogFormat = Annotated[str, typer.Option("--log-format", metavar="text|json", help="Format of log lines.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log more, and show tracebacks.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON Lines for programs.")]
OnlyGroup = Annotated[str | None, typer.Option("--group", help="Only this group.")]
CoordinatorLogs = Annotated[
    list[Path] | None,
    typer.Option("--coordinator-log", metavar="FILE", help="A broker's log: the reasons. Repeatable."),
]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", help="Address of the metrics; loopback by default.")
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=0, max=65535, help="Serve Prometheus metrics there.", show_default="none"
    ),
]
AsTable = Annotated[bool, typer.Option("--table", help="A table, also where output is no terminal.")]
MaxLineBytes = Annotated[
    int | None,
    typer.Option(
        "--max-line-bytes", min=1, max=2**31 - 1, help="Longest line that is read.", show_default="64 MiB"
    ),
]


def checkpoint_place(text: str) -> str:
    """A checkpoint as an option gives it: a URL as it is, a folder by its own name, not ``.``, ``..`` or a link's.

    It may be moved while a command runs, and another made beside it.

    Raises:
        BadParameter: it is empty, as where a variable is not set: it would be the folder that this runs in.
    """
    if not text:
        raise typer.BadParameter("empty; name a folder or a URL")
    return text if "://" in text else str(Path(text).resolve())


def checkpoint_option(what: str) -> Any:
    """``--checkpoint``; ``what`` it is to the command."""
    return typer.Option("--checkpoint", metavar="DIR", parser=checkpoint_place, help=what)


#: Name → type and default, in the order of the help.
_CLUSTER: Mapping[str, tuple[Any, Any]] = {
    "bootstrap_servers": (BootstrapServers, None),
    "config": (Config, None),
    "topic_prefix": (TopicPrefix, None),
}
_LOG: Mapping[str, tuple[Any, Any]] = {"log_format": (LogFormat, "text")}
_VERBOSE: Mapping[str, tuple[Any, Any]] = {"verbose": (Verbose, False)}


def command(
    epilog: str, *, subcommand_metavar: str | None = None, interspersed: bool = False
) -> Callable[[Callable[..., None]], typer.Typer]:
    """Makes a function a command of one word; more may be added to it.

    Args:
        epilog: stands below the options in its help: an example.
        subcommand_metavar: what stands behind the options in its usage.
        interspersed: it has an argument, and options may stand before and after that.
    """

    def made(function: Callable[..., None]) -> typer.Typer:
        app = typer.Typer(invoke_without_command=True, subcommand_metavar=subcommand_metavar)
        settings = {"allow_interspersed_args": True} if interspersed else None
        app.callback(epilog=epilog, context_settings=settings)(function)
        return app

    return made


@dataclass(frozen=True)
class Session:
    """What a long-running command was started with."""

    bootstrap_servers: str | None
    config: Path | None
    topic_prefix: str | None
    log_format: str
    verbose: bool

    @cached_property
    def stop(self) -> threading.Event:
        """Set by SIGTERM and Ctrl-C. Ask for it before slow imports: a signal meanwhile is an order too."""
        from streaming.process.signals import stop_on_signals

        return stop_on_signals()

    @cached_property
    def settings(self) -> Settings:
        """Defaults, file, environment, options."""
        from streaming.settings.config import load

        return load(self.config, bootstrap_servers=self.bootstrap_servers, topic_prefix=self.topic_prefix)

    @property
    def arguments(self) -> list[str]:
        """The same options for a child."""
        given = {
            "--log-format": self.log_format,
            "--bootstrap-servers": self.bootstrap_servers,
            "--config": self.config,
            "--topic-prefix": self.topic_prefix,
        }
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return [*words, *(["--verbose"] if self.verbose else [])]


def offline(command: Callable[..., None]) -> Callable[..., None]:
    """A command without a cluster: it takes ``--verbose``, which ``main`` looks at for tracebacks."""

    def run(*arguments: Any, verbose: bool, **options: Any) -> None:
        del verbose
        command(*arguments, **options)

    return _with_options(run, command, _VERBOSE)


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """A command that asks the cluster something: its first parameter is the settings."""

    def run(
        *arguments: Any,
        bootstrap_servers: str | None,
        config: Path | None,
        topic_prefix: str | None,
        verbose: bool,
        **options: Any,
    ) -> None:
        from streaming.process import log
        from streaming.settings.config import load

        log.configure(quiet=True, verbose=verbose)
        settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
        command(settings, *arguments, **options)

    return _with_options(run, command, {**_CLUSTER, **_VERBOSE}, handed=1)


def long_running(
    command: Callable[..., None], *, bootstrap_servers: Any = BootstrapServers
) -> Callable[..., None]:
    """A command that runs until it is told to stop: its first parameter is the :class:`Session`.

    ``bootstrap_servers`` is the option that says which cluster, where that means more than usual.
    """

    def run(*arguments: Any, **options: Any) -> None:
        from streaming.process import log

        session = Session(**{name: options.pop(name) for name in (*_CLUSTER, *_LOG, *_VERBOSE)})
        log.configure(session.log_format, verbose=session.verbose)
        command(session, *arguments, **options)

    cluster = {**_CLUSTER, "bootstrap_servers": (bootstrap_servers, None)}
    return _with_options(run, command, {**cluster, **_LOG, **_VERBOSE}, handed=1)


def _with_options(
    run: Callable[..., None],
    command: Callable[..., None],
    options: Mapping[str, tuple[Any, Any]],
    *,
    handed: int = 0,
) -> Callable[..., None]:
    """``run`` with the signature that typer reads: the command's, less what it is ``handed``, then ``options``."""
    hints = get_type_hints(command, localns={"Settings": object}, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in list(signature(command).parameters.items())[handed:]
    ]
    added = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in options.items()
    ]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    run.__signature__ = signature(command).replace(parameters=[*own, *added], return_annotation=None)  # type: ignore[attr-defined] # what typer reads
    return run


_UNITS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_SHORT_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000}
#: More than any time has; Python refuses to read numbers of thousands.
_MAX_TIME_DIGITS: Final = 18


class UnreadableDuration(BadInput):
    """Not a length of time."""


class UnreadableTime(BadInput):
    """Not a time."""


def duration_ms(text: str, option: str) -> int:
    """``12h``, ``30d``, ``8w`` in milliseconds; ``option`` is named in the refusal.

    Raises:
        UnreadableDuration: it is none of these.
    """
    read = re.fullmatch(r"([1-9][0-9]{0,5})([hdw])", text)
    if read is None:
        raise UnreadableDuration(f"{option} {text}: write 12h, 30d or 8w")
    return int(read[1]) * _UNITS[read[2]]


def short_duration_ms(text: str, option: str, *, least: int = 0) -> int:
    """``500ms``, ``20s``, ``5m`` in milliseconds, at least ``least``; ``option`` is named in the refusal.

    Raises:
        UnreadableDuration: it is none of these, or too short.
    """
    read = re.fullmatch(r"([0-9]{1,6})(ms|s|m)", text, re.ASCII)
    if read is None or int(read[1]) * _SHORT_UNITS[read[2]] < least:
        raise UnreadableDuration(
            f"{option} {text}: write 500ms, 20s or 5m{', more than nothing' if least else ''}"
        )
    return int(read[1]) * _SHORT_UNITS[read[2]]


def time_ms(text: str, option: str) -> int:
    """RFC 3339, or milliseconds since the epoch, in these; without an offset it is UTC.

    ``option`` is named in the refusal.

    Raises:
        UnreadableTime: it is neither, or beyond what records may have.
    """
    refusal = f"{option} {text}: write RFC 3339 (2026-01-31T12:00:00Z) or milliseconds since the epoch"
    if text.isascii() and text.isdigit():
        found = int(text) if len(text) <= _MAX_TIME_DIGITS else MAX_TIMESTAMP + 1
    else:
        try:
            moment = datetime.fromisoformat(text)
            found = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise UnreadableTime(refusal) from error
    if not 0 <= found <= MAX_TIMESTAMP:
        raise UnreadableTime(refusal)
    return found
