"""``rebalance-monitor run``: collector, Spark job and feed on one machine, ended together."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import CoordinatorLogs, Session, checkpoint_option, command, long_running


@command("Example: rebalance-monitor run --bootstrap-servers kafka:9092 --checkpoint ./state")
@long_running
def run(
    session: Session,
    *,
    checkpoint: Annotated[str, checkpoint_option("Where the job keeps its place and state.")] = (
        "rebalance-checkpoint"
    ),
    coordinator_log: CoordinatorLogs = None,
    port: Annotated[int, typer.Option("--port", help="Port of the page and the feed.")] = 8686,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="End a collector that is running under the same id.")
    ] = False,
) -> None:
    """Collect, stream and serve in one process group for one machine; in production each is its own."""
    stop, settings = session.stop, session.settings
    from streaming.kafka.clients import check_reachable
    from streaming.kafka.heartbeats import require_no_collector
    from streaming.kafka.topics import ensure_topics
    from streaming.process.children import Child, Children
    from streaming.serve.server import listen
    from streaming.spark.checkpoint import require_unused

    # What would keep a part from starting ends nothing that is running already.
    listen("127.0.0.1", port).close()
    require_unused(checkpoint)
    check_reachable(settings.kafka)
    if not take_over:
        require_no_collector(settings, stop)
    ensure_topics(settings)
    parts = {
        "collect": [word for path in coordinator_log or () for word in ("--coordinator-log", str(path))],
        "stream": ["--checkpoint", checkpoint],
        "serve": ["--port", str(port)],
    }

    def before_restart(name: str) -> None:
        if name == "collect":
            require_no_collector(settings, stop)

    with Children() as children:
        for name, options in parts.items():
            if not stop.is_set():
                children.add(Child(name, ["streaming", name, *session.arguments, *options]))
        children.watch(stop, before_restart)
