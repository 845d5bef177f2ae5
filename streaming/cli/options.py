"""Options that commands share, the decorators that add them, and the parsing of times and durations."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from assignors.errors import BadInput
from streaming.records.codec import epoch_ms
from streaming.records.events import MAX_TIMESTAMP

if TYPE_CHECKING:
    from streaming.settings.config import Settings


def option(metavar: str, help_text: str, default: Any, *names: str, **settings: Any) -> Any:
    """Return a command's parameter that is an option with a value; by default the option has the parameter's name.

    ``default``: ``...`` if the option is required.
    """
    return typer.Option(default, *names, metavar=metavar, help=help_text, **settings)


def flag(name: str, help_text: str, default: Any = False, **settings: Any) -> Any:
    """Return a command-line option that has no value, or a value from a list."""
    return typer.Option(default, name, help=help_text, **settings)


def shared_option(name: str, metavar: str, help_text: str, **settings: Any) -> Any:
    """Return a command-line option that several commands have, in the form of a parameter's type."""
    return typer.Option(name, metavar=metavar, help=help_text, **settings)


BootstrapServers = Annotated[
    str | None,
    shared_option("--bootstrap-servers", "HOST:PORT", "Kafka bootstrap servers.", show_default="127.0.0.1:9092"),
]
Config = Annotated[Path | None, shared_option("--config", "FILE", "Settings file (TOML).")]
TopicPrefix = Annotated[str | None, shared_option("--topic-prefix", "TEXT", "Topic-name prefix.")]
LogFormat = Annotated[str, shared_option("--log-format", "text|json", "Format of log lines.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log more, and print tracebacks.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON Lines.")]
JsonDocument = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
GroupFlag = Annotated[str | None, shared_option("--group", "GROUP", "Only this group.")]
GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="Group id.")]
CoordinatorLogs = Annotated[
    list[Path] | None,
    shared_option("--coordinator-log", "FILE", "A broker's server.log, for rebalance reasons. Repeatable."),
]
MetricsHost = Annotated[str, shared_option("--metrics-host", "HOST", "Address to serve metrics on.")]
MetricsPort = Annotated[
    int | None,
    shared_option("--metrics-port", "PORT", "Port of the metrics.", min=0, max=65535, show_default="no metrics"),
]
TableOption = Annotated[bool, typer.Option("--table", help="Print a table, also into a pipe.")]
MaxLineBytes = Annotated[
    int | None,
    shared_option(
        "--max-line-bytes", "N", "Longest line of input, in bytes.", min=1, max=2**31 - 1, show_default="64 MiB"
    ),
]


def checkpoint_place(text: str) -> str:
    """Return the URL of a checkpoint unchanged, or the absolute path of a checkpoint's folder."""
    if not text:
        raise typer.BadParameter("is empty; name a folder or a URL")
    return text if "://" in text else str(Path(text).resolve())


def checkpoint_option(help_text: str, default: Any) -> Any:
    """Return the command-line option ``--checkpoint``, whose value is the checkpoint's folder or URL."""
    return option("DIR", help_text, default, "--checkpoint", parser=checkpoint_place)


#: Names and types of parameters, in the order of the help.
_CLUSTER_OPTIONS = {"bootstrap_servers": BootstrapServers, "config": Config, "topic_prefix": TopicPrefix}
#: A function that typer runs as a command.
Command = Callable[..., None]


def example(*lines: str) -> str:
    """Return the epilog of a command's help: example lines that a user can paste into a shell."""
    return "\n".join(("\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)))


@dataclass(frozen=True)
class Session:
    """The options that all long-running commands have."""

    bootstrap_servers: str | None
    config: Path | None
    topic_prefix: str | None
    log_format: str
    verbose: bool

    @cached_property
    def stop(self) -> threading.Event:
        """The event that SIGTERM and Ctrl-C set. Reading this property installs the handlers, so read it early."""
        from streaming.process.service import stop_on_signals

        return stop_on_signals()

    @cached_property
    def settings(self) -> "Settings":
        """The settings from defaults, the file, the environment and the options; later sources win."""
        from streaming.settings.config import load

        return load(self.config, bootstrap_servers=self.bootstrap_servers, topic_prefix=self.topic_prefix)

    @property
    def arguments(self) -> list[str]:
        """The common options as arguments for the command line of a child process."""
        names = ("log_format", "bootstrap_servers", "config", "topic_prefix")
        values = {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}
        words = [word for name, value in values.items() if value is not None for word in (name, str(value))]
        return [*words, *(["--verbose"] if self.verbose else [])]


def offline(*examples: str) -> Callable[[Command], Command]:
    """Decorate a command that needs no cluster. ``--verbose`` is read in ``main``, for tracebacks."""
    return lambda function: _with_options(function, examples, {"verbose": Verbose})


def connected(*examples: str) -> Callable[[Command], Command]:
    """Decorate a command that reads from the cluster and then ends; its first parameter is the settings."""

    def settings(*, config: Path | None, verbose: bool, **cluster: str | None) -> "Settings":
        from streaming.process.service import configure_logging
        from streaming.settings.config import load

        configure_logging(quiet=True, verbose=verbose)
        return load(config, **cluster)

    return lambda function: _with_options(function, examples, {**_CLUSTER_OPTIONS, "verbose": Verbose}, settings)


def long_running(*examples: str, bootstrap_servers: Any = BootstrapServers) -> Callable[[Command], Command]:
    """Decorate a command that runs until it is stopped; its first parameter is the :class:`Session`.

    ``bootstrap_servers`` replaces the common option of that name.
    """

    def session(**options: Any) -> Session:
        from streaming.process.service import configure_logging

        configure_logging(options["log_format"], verbose=options["verbose"])
        return Session(**options)

    common = {**_CLUSTER_OPTIONS, "bootstrap_servers": bootstrap_servers, "log_format": LogFormat, "verbose": Verbose}
    return lambda function: _with_options(function, examples, common, session)


_OPTION_DEFAULTS: Mapping[str, Any] = {"log_format": "text", "verbose": False}


def _with_options(
    function: Command, examples: tuple[str, ...], options: Mapping[str, Any], first: Callable[..., Any] | None = None
) -> Command:
    """Return a command with these common options; ``first`` turns their values into the function's first argument."""

    def run(*arguments: Any, **values: Any) -> None:
        common = {name: values.pop(name) for name in options}
        function(*([first(**common)] if first else ()), *arguments, **values)

    hints = get_type_hints(function, localns={"Settings": object}, include_extras=True)
    own = list(signature(function).parameters.values())[first is not None :]
    parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=_OPTION_DEFAULTS.get(name))
        for name, annotation in options.items()
    ]
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # Typer reads the signature.
    vars(run).update(epilog=example(*examples), __signature__=Signature(parameters))
    return run


_MS_PER_UNIT: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
#: Units that are written out, as in Spark's intervals (``2 seconds``), without the plural's s.
_UNIT_BY_WORD = {"millisecond": "ms", "second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d"}
#: The most digits of a time. Python refuses to parse numbers with thousands of digits.
_MAX_TIME_DIGITS: Final = 18


def duration_ms(text: str, option: str, *, minimum: int = 1) -> int:
    """Parse ``500ms``, ``20s``, ``2 seconds``, ``5m``, ``12h``, ``30d`` or ``8w``, the value of ``option``, to ms."""
    match = re.fullmatch(r"([0-9]{1,9})\s*([a-z]+)", text.strip().lower(), re.ASCII)
    unit = _MS_PER_UNIT.get(_UNIT_BY_WORD.get(match[2].removesuffix("s"), match[2])) if match is not None else None
    if match is None or unit is None or (duration := int(match[1]) * unit) < minimum:
        raise BadInput(f"{option} {text}: write 500ms, 20s, 5m, 12h, 30d or 8w{', more than 0' if minimum else ''}")
    return duration


def time_ms(text: str, option: str) -> int:
    """Parse RFC 3339 (without an offset: UTC) or milliseconds since the epoch, the value of ``option``."""
    error_text = f"{option} {text}: write RFC 3339 (2026-01-31T12:00:00Z) or milliseconds since the epoch"
    if text.isascii() and text.isdigit():
        timestamp = epoch_ms(text) if len(text) <= _MAX_TIME_DIGITS else MAX_TIMESTAMP + 1
    else:
        try:
            moment = datetime.fromisoformat(text)
            timestamp = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise BadInput(error_text) from error
    if not 0 <= timestamp <= MAX_TIMESTAMP:
        raise BadInput(error_text)
    return timestamp


def now_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def time_option(name: str, help_text: str, **settings: Any) -> Any:
    """Return an option whose value is a time; the command gets it in milliseconds since the epoch."""
    return option("TIME", help_text, None, name, parser=lambda text: time_ms(text, name), **settings)


def duration_option(name: str, help_text: str, default: Any, *, minimum: int = 1, **settings: Any) -> Any:
    """Return an option whose value is a duration; the command gets it in milliseconds."""
    return option(
        "TIME", help_text, default, name, parser=lambda text: duration_ms(text, name, minimum=minimum), **settings
    )
