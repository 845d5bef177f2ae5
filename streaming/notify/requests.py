"""HTTP requests for the API of each receiver: Slack, Microsoft Teams, PagerDuty, Opsgenie, and webhooks.

Sources: Slack incoming webhooks; Teams Workflows webhooks (Adaptive Card 1.4); PagerDuty Events API v2; Opsgenie
Alert API v2. Webhooks receive CloudEvents 1.0 (structured mode), signed as in Standard Webhooks 1.0.0.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from assignors.errors import BadInput
from streaming.notify.notification import Notification, notification_text
from streaming.records.codec import rfc3339
from streaming.settings.notify import NotifyTarget

_PAGERDUTY_URL: Final = "https://events.pagerduty.com/v2/enqueue"
_OPSGENIE_URL: Final = "https://api.opsgenie.com/v2/alerts"
_OPSGENIE_PRIORITIES: Final = {"critical": "P1", "warning": "P3", "info": "P5"}
#: Longest titles that receivers accept, in characters: PagerDuty's summary 1,024, Opsgenie's message 130.
_MAX_PAGERDUTY_SUMMARY: Final = 1024
_MAX_OPSGENIE_MESSAGE: Final = 130
#: Prefix of a Standard Webhooks secret; the remaining secret is Base64.
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - this is not a secret


class Request(NamedTuple):
    """An HTTP POST request with a JSON body, to a receiver of notifications."""

    url: str
    headers: dict[str, str]
    body: bytes


def request(target: NotifyTarget, notification: Notification, secret: str, now_ms: int) -> Request:
    """Return the request that sends a notification to a target; a signature has the time ``now_ms``."""
    if target.type in {"pagerduty", "opsgenie"} and not secret:
        raise BadInput(f"notify target {target.name}: {target.type} needs secret_file, a file with its key")
    match target.type:
        case "slack":
            return _json_post_request(target.url, {"text": _add_link(target, notification, "<{0}|page>")})
        case "teams":
            return _json_post_request(target.url, _teams(target, notification))
        case "pagerduty":
            return _json_post_request(target.url or _PAGERDUTY_URL, _pagerduty(target, notification, secret))
        case "opsgenie":
            return _opsgenie(target, notification, secret)
        case _:
            return _webhook(target, notification, secret, now_ms)


def _json_post_request(url: str, body: Any, **headers: str) -> Request:
    return Request(url, {"content-type": "application/json", **headers}, msgspec.json.encode(body))


def _add_link(target: NotifyTarget, notification: Notification, link: str) -> str:
    text = notification_text(target, notification)
    return f"{text} {link.format(notification.link)}" if notification.link else text


def _teams(target: NotifyTarget, notification: Notification) -> dict[str, Any]:
    adaptive_card: dict[str, Any] = {
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": notification.title, "weight": "Bolder", "wrap": True},
            {"type": "TextBlock", "text": notification_text(target, notification), "wrap": True},
        ],
    }
    if notification.link:
        adaptive_card["actions"] = [{"type": "Action.OpenUrl", "title": "Open the page", "url": notification.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": adaptive_card}
    return {"type": "message", "attachments": [attachment]}


def _pagerduty(target: NotifyTarget, notification: Notification, routing_key: str) -> dict[str, Any]:
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if notification.action == "close" else "trigger",
        "dedup_key": notification.subject[:255],
        "payload": {
            "summary": notification_text(target, notification)[:_MAX_PAGERDUTY_SUMMARY],
            "source": notification.group_id,
            "severity": notification.severity,
            "timestamp": rfc3339(notification.at_ms),
            "class": notification.kind,
        },
    }
    if notification.link:
        event["links"] = [{"href": notification.link, "text": "Rebalance monitor"}]
    return event


def _opsgenie(target: NotifyTarget, notification: Notification, key: str) -> Request:
    url, authorization = target.url or _OPSGENIE_URL, f"GenieKey {key}"
    if notification.action == "close":
        alias = quote(notification.subject, safe="")
        body = {"note": notification.text}
        return _json_post_request(f"{url}/{alias}/close?identifierType=alias", body, authorization=authorization)
    alert = {
        "message": notification.title[:_MAX_OPSGENIE_MESSAGE],
        "alias": notification.subject[:512],
        "description": _add_link(target, notification, "{0}"),
        "priority": _OPSGENIE_PRIORITIES[notification.severity],
        "entity": notification.group_id,
        "tags": [notification.kind],
    }
    return _json_post_request(url, alert, authorization=authorization)


def _webhook(target: NotifyTarget, notification: Notification, secret: str, now_ms: int) -> Request:
    fields = notification._asdict()
    data = {name: fields[name] for name in ("action", "severity", "kind", "text", "link", "subject")}
    event = {
        "specversion": "1.0",
        "id": notification.id,
        "type": f"rebalance.notification.{notification.action}",
        "source": "rebalance-monitor",
        "subject": notification.group_id,
        "time": rfc3339(notification.at_ms),
        "datacontenttype": "application/json",
        "data": data | {"groupId": notification.group_id, "message": notification_text(target, notification)},
    }
    headers = {"content-type": "application/cloudevents+json", "webhook-id": notification.id}
    draft = Request(target.url, headers | {"webhook-timestamp": str(now_ms // 1000)}, msgspec.json.encode(event))
    if secret:
        draft.headers["webhook-signature"] = _signature(target, draft, secret)
    return draft


def _signature(target: NotifyTarget, draft: Request, secret: str) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise BadInput(
            f"notify target {target.name}: secret_file is not Base64; write {_SECRET_PREFIX} and Base64, as "
            "Standard Webhooks does"
        ) from error
    signed = f"{draft.headers['webhook-id']}.{draft.headers['webhook-timestamp']}.".encode() + draft.body
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"
