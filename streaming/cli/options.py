"""Options that several commands share, so that they read and behave the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Json = Annotated[bool, typer.Option("--json", help="JSON Lines for programs.")]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", help="Address of the metrics; loopback unless told.")
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=0, max=65535, help="Serve Prometheus metrics there.", show_default="none"
    ),
]
Table = Annotated[bool, typer.Option("--table", help="A table, also where output is no terminal.")]
MaxLineBytes = Annotated[
    int | None,
    typer.Option("--max-line-bytes", min=1, help="Longest line that is read.", show_default="64 MiB"),
]
