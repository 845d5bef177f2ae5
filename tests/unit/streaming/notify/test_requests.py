"""Tests of the HTTP requests that notify Slack, Teams, PagerDuty, Opsgenie and webhooks."""

import base64
import hashlib
import hmac
from typing import Any

import msgspec
import pytest

from assignors.errors import BadInput
from streaming.notify.notification import Notification
from streaming.notify.requests import request
from streaming.settings.notify import NotifyTarget

OPEN_NOTIFICATION = Notification(
    *("g/incident/1/1/open", "g/incident/1/1", "open", "critical", "g", "storm"),
    *("g does not settle.", 1_700_000_000_000, "https://m/groups/g"),
)
CLOSE_NOTIFICATION = OPEN_NOTIFICATION._replace(id="g/incident/1/1/close", action="close")
WEBHOOK_SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


def sent(kind: str, notification: Notification, secret: str = "", **fields: Any) -> tuple[str, dict[str, str], Any]:
    if kind not in {"pagerduty", "opsgenie"}:
        fields.setdefault("url", "https://example.com/hook")
    result = request(NotifyTarget(name="ops", type=kind, **fields), notification, secret, 1_700_000_001_500)
    return result.url, result.headers, msgspec.json.decode(result.body)


def test_slack_request_has_the_incident_as_text() -> None:
    url, _, body = sent("slack", OPEN_NOTIFICATION)
    assert url == "https://example.com/hook"
    assert body == {"text": "critical: g storm: g does not settle. <https://m/groups/g|page>"}


def test_teams_request_is_an_adaptive_card() -> None:
    _, _, body = sent("teams", OPEN_NOTIFICATION)
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    texts = [block["text"] for block in attachment["content"]["body"]]
    assert texts == ["critical: g storm", "critical: g storm: g does not settle."]
    assert attachment["content"]["actions"][0]["url"] == "https://m/groups/g"


def test_pagerduty_requests_trigger_and_resolve_an_event() -> None:
    url, _, body = sent("pagerduty", OPEN_NOTIFICATION, "key")
    assert url == "https://events.pagerduty.com/v2/enqueue"
    assert body == {
        "routing_key": "key",
        "event_action": "trigger",
        "dedup_key": "g/incident/1/1",
        "payload": {
            "summary": "critical: g storm: g does not settle.",
            "source": "g",
            "severity": "critical",
            "timestamp": "2023-11-14T22:13:20.000Z",
            "class": "storm",
        },
        "links": [{"href": "https://m/groups/g", "text": "Rebalance monitor"}],
    }
    _, _, resolve_body = sent("pagerduty", CLOSE_NOTIFICATION, "key")
    assert (resolve_body["event_action"], resolve_body["dedup_key"]) == ("resolve", "g/incident/1/1")


def test_opsgenie_requests_create_and_close_an_alert() -> None:
    url, headers, body = sent("opsgenie", OPEN_NOTIFICATION, "key")
    assert (url, headers["authorization"]) == ("https://api.opsgenie.com/v2/alerts", "GenieKey key")
    assert (body["alias"], body["priority"], body["message"]) == ("g/incident/1/1", "P1", "critical: g storm")
    url, _, _ = sent("opsgenie", CLOSE_NOTIFICATION, "key")
    assert url == "https://api.opsgenie.com/v2/alerts/g%2Fincident%2F1%2F1/close?identifierType=alias"


def test_a_webhook_is_a_signed_cloudevent() -> None:
    webhook = NotifyTarget(name="ops", type="webhook", url="https://example.com")
    notification_request = request(webhook, OPEN_NOTIFICATION, WEBHOOK_SECRET, 1_700_000_001_500)
    assert msgspec.json.decode(notification_request.body) == {
        "specversion": "1.0",
        "id": "g/incident/1/1/open",
        "type": "rebalance.notification.open",
        "source": "rebalance-monitor",
        "subject": "g",
        "time": "2023-11-14T22:13:20.000Z",
        "datacontenttype": "application/json",
        "data": {
            "groupId": "g",
            "action": "open",
            "severity": "critical",
            "kind": "storm",
            "text": "g does not settle.",
            "link": "https://m/groups/g",
            "subject": "g/incident/1/1",
            "message": "critical: g storm: g does not settle.",
        },
    }
    signed_content = b"g/incident/1/1/open.1700000001." + notification_request.body
    digest = hmac.new(b"0123456789abcdef01234567", signed_content, hashlib.sha256).digest()
    assert notification_request.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("kind", "secret", "message"),
    [
        ("pagerduty", "", "notify target ops: pagerduty needs secret_file, a file with its key"),
        ("webhook", "no base64!", "notify target ops: secret_file is not Base64"),
    ],
)
def test_unusable_secrets_are_refused(kind: str, secret: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        sent(kind, OPEN_NOTIFICATION, secret)
