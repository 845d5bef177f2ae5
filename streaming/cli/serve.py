"""``rebalance-monitor serve``: the feed, the page, JSON and metrics over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import Session, command, long_running

if TYPE_CHECKING:
    from streaming.serve.security import Proxies


#: Seconds that the server may stand still; it reports progress once a second.
_WATCHDOG_SECONDS = 60.0

Host = Annotated[str, typer.Option("--host", help="Address to listen on; loopback by default.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one and prints it.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="Ask for a bearer token of FILE, which has one a line."
    ),
]
TrustHeader = Annotated[
    str | None,
    typer.Option("--trust-header", metavar="NAME", help="Who asks, as a proxy that signs people in says."),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option("--trusted-proxy", metavar="ADDRESS", help="Who may set it; or a network. Repeatable."),
]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Log every request.")]
Database = Annotated[
    Path | None,
    typer.Option("--database", metavar="FILE", help="The history; by default one a cluster, in your home."),
]
Keep = Annotated[str, typer.Option("--keep", help="Rounds older than this go: 12h, 30d, 8w.")]
KeepMib = Annotated[
    int, typer.Option("--keep-mib", min=1, help="The oldest rounds go when the history is larger.")
]
MaxClients = Annotated[int, typer.Option("--max-clients", min=1, help="Followers of the stream at once.")]


@command("Example: rebalance-monitor serve --bootstrap-servers kafka:9092 --port 8686")
@long_running
def serve(
    session: Session,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8686,
    token_file: TokenFile = None,
    trust_header: TrustHeader = None,
    trusted_proxies: TrustedProxies = None,
    access_log: AccessLog = False,
    database: Database = None,
    keep: Keep = "30d",
    keep_mib: KeepMib = 1024,
    max_clients: MaxClients = 1000,
) -> None:
    """Follow the diffs and serve them: a page, a live feed, JSON and metrics. Read-only."""
    from streaming.cli.options import duration_ms
    from streaming.kafka.heartbeats import HeartbeatTracker
    from streaming.process.plain import say
    from streaming.process.watchdog import Watchdog
    from streaming.serve.retention import Retention
    from streaming.serve.server import FeedServer, ServeOptions
    from streaming.serve.source import KafkaSource

    proxies = _proxies(trust_header, trusted_proxies or [])
    limits = Retention(duration_ms(keep, "--keep"), keep_mib * 2**20)
    settings = session.settings
    source = KafkaSource(settings)
    options = ServeOptions(
        history=database or settings.default_history(source.cluster_id),
        diffs_topic=settings.topics.diffs,
        stories=source.stories,
        host=host,
        port=port,
        token_file=token_file,
        proxies=proxies,
        access_log=access_log,
        limits=limits,
        max_clients=max_clients,
    )
    hearing = HeartbeatTracker(settings)
    watchdog = Watchdog(_WATCHDOG_SECONDS)
    server = FeedServer(
        source,
        options,
        cluster_id=source.cluster_id,
        freshness=hearing.freshness,
        beat=watchdog.beat,
    )
    say(f"serving {server.address}")
    with watchdog, hearing:  # what keeps the server from starting is told alone
        server.run()


def _proxies(header: str | None, addresses: list[str]) -> Proxies | None:
    from streaming.serve.security import Proxies, UnusableProxy

    if header is not None:
        return Proxies.of(header, addresses)
    if addresses:
        raise UnusableProxy(
            f"--trusted-proxy {addresses[0]}: name the header that it sets, by --trust-header"
        )
    return None
