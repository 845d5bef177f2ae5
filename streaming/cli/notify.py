"""The command ``notify`` with its subcommand ``test``: notifications to chat, paging services and webhooks."""

from __future__ import annotations

import threading
import time
from typing import Annotated

import typer

from assignors.errors import BadInput, OutsideFailure
from streaming.cli.options import MetricsHost, MetricsPort, Session, connected, example, long_running, option
from streaming.settings.config import Settings
from streaming.settings.notify import NotifyTarget

_ATTEMPT_SECONDS = 15.0


class NoTarget(BadInput):
    """The settings have no ``[[notify]]`` of this name, or none at all."""


class NotDelivered(OutsideFailure):
    """A receiver did not take the test notification."""


notify = typer.Typer(
    invoke_without_command=True,
    epilog=example(
        "rebalance-monitor notify --config monitor.toml", "rebalance-monitor notify test --config monitor.toml"
    ),
)


@notify.callback()
@long_running()
def notify_command(
    session: Session,
    context: typer.Context,
    *,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
) -> None:
    """Send incidents and finished episodes to the receivers of [[notify]], until SIGTERM or Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    stop, settings = session.stop, session.settings
    from prometheus_client import CollectorRegistry

    from streaming.notify.follower import NotifyMetrics
    from streaming.notify.follower import notify as follow
    from streaming.process.service import serve_metrics

    _require_targets(settings)
    registry = CollectorRegistry()
    serve_metrics(registry, metrics_host, metrics_port)
    follow(settings, stop, NotifyMetrics(registry))


@notify.command("test", epilog=example("rebalance-monitor notify test --config monitor.toml --target ops-slack"))
@connected()
def notify_test(
    settings: Settings, *, target: Annotated[str | None, option("--target", "NAME", "Only this target.")] = None
) -> None:
    """Send an incident that opens and closes to each receiver, or to one. The exit status is 3 if one fails."""
    from streaming.kafka.topic_follower import Stopped
    from streaming.notify.follower import read_secret
    from streaming.notify.notification import Notification
    from streaming.notify.requests import request
    from streaming.notify.sender import Refused, Sender
    from streaming.process.plain import say

    targets = [item for item in _require_targets(settings) if target in (None, item.name)]
    if not targets:
        raise NoTarget(f"--target {target}: no [[notify]] has this name; known are {_names(settings)}")
    now_ms, failures = time.time_ns() // 1_000_000, []

    def give_up(seconds: float) -> None:
        if threading.Event().wait(min(seconds, max(0.0, by - time.monotonic()))) or time.monotonic() >= by:
            raise Stopped

    for receiver in targets:
        by = time.monotonic() + _ATTEMPT_SECONDS
        sender, secret = (Sender(receiver.name, give_up, allow_private=receiver.allow_private), read_secret(receiver))
        subject = f"rebalance-monitor-test/{now_ms}"
        link = f"{receiver.page_url.rstrip('/')}/" if receiver.page_url else ""
        try:
            for action in ("open", "close"):
                text = "This is a test of kafka-rebalance-monitor's notifications."
                notification = Notification(
                    f"{subject}/{action}", subject, action, receiver.severity, "test", "test", text, now_ms, link
                )
                sender.send(request(receiver, notification, secret, now_ms))
        except Refused as error:
            failures.append(f"{receiver.name}: {error}")
        except Stopped:
            failures.append(f"{receiver.name}: no success within {_ATTEMPT_SECONDS:g} s")
        else:
            say(f"{receiver.name}: delivered")
    if failures:
        raise NotDelivered("notify test: " + "; ".join(failures))


def _require_targets(settings: Settings) -> list[NotifyTarget]:
    if not settings.notify:
        raise NoTarget("no receiver in the settings; add a [[notify]] table to the file of --config")
    return settings.notify


def _names(settings: Settings) -> str:
    return ", ".join(target.name for target in settings.notify)
