"""Tests of notifications: incidents of which a receiver is notified, and incidents of which it is not."""

from typing import Any

import msgspec
import pytest

from assignors.errors import BadInput
from streaming.notify.notification import Notification, OpenIncidents, episode_notification, notification_text
from streaming.records.episodes import Acknowledged, Downtime
from streaming.records.events import GroupPauses
from streaming.settings.config import load
from streaming.settings.notify import NotifyTarget
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import episode_records
from tests.support.incidents import incident

NIGHT_MS = 1_700_002_800_000  # 2023-11-14 23:00 UTC


def target(**fields: Any) -> NotifyTarget:
    return NotifyTarget(**{"name": "ops", "type": "webhook", "url": "https://example.com/hook", **fields})


@pytest.mark.parametrize(
    ("page_url", "link"),
    [
        ("https://m.example.com/", "https://m.example.com/groups/a/b%3F"),
        ("https://m.example.com/kafka?cluster=eu", "https://m.example.com/kafka/groups/a/b%3F?cluster=eu"),
        ("", ""),
    ],
)
def test_links_keep_the_cluster_of_the_page_url(page_url: str, link: str) -> None:
    (opened,) = OpenIncidents(target(page_url=page_url)).notifications(incident("a/b?"))
    assert opened.link == link


def test_an_incident_opens_and_closes_once() -> None:
    incidents = OpenIncidents(target(page_url="https://monitor.example.com/"))
    first = incident("a/b", story="a/b does not settle.")
    assert incidents.notifications(first) == [
        Notification(
            *("a/b/incident/1/1/open", "a/b/incident/1/1", "open", "critical", "a/b", "storm"),
            *("a/b does not settle.", 100, "https://monitor.example.com/groups/a/b"),
        )
    ]
    assert incidents.notifications(msgspec.structs.replace(first, updated_at=150, story="longer")) == []
    (closed,) = incidents.notifications(incident("a/b", closed_at=200))
    assert (closed.id, closed.subject) == ("a/b/incident/1/1/close", "a/b/incident/1/1")
    assert (closed.action, closed.at_ms, closed.title) == ("close", 200, "closed: a/b storm")


def test_muted_incident_is_not_notified_when_it_recurs() -> None:
    incidents = OpenIncidents(target())
    muted = Acknowledged(at=150, until=1000, muted=True)
    updates = [
        incident("g"),
        incident("g", acknowledged=muted),
        incident("g", closed_at=200, acknowledged=muted),
        incident("g", times=2, updated_at=300, acknowledged=muted),
        incident("g", times=2, closed_at=400, acknowledged=muted),
        incident("g", times=3, updated_at=900, acknowledged=muted),
        incident("g", times=3, updated_at=1000, acknowledged=muted),
        incident("g", times=3, closed_at=1100, acknowledged=muted),
    ]
    ids = [notification.id for update in updates for notification in incidents.notifications(update)]
    assert [name.removeprefix("g/incident/1/") for name in ids] == ["1/open", "1/close", "3/open", "3/close"]


def test_restarted_sender_closes_an_incident_muted_later() -> None:
    incidents = OpenIncidents(target())
    muted = Acknowledged(at=350, muted=True)
    incidents.notifications(incident("g", times=2, updated_at=300, acknowledged=muted))
    closed = incidents.notifications(incident("g", times=2, closed_at=400, acknowledged=muted))
    assert [notification.action for notification in closed] == ["close"]


def test_deleted_incident_is_notified_again() -> None:
    incidents = OpenIncidents(target())
    incidents.notifications(incident("h"))
    incidents.forget("h", 1)
    assert [notification.action for notification in incidents.notifications(incident("h"))] == ["open"]


@pytest.mark.parametrize(
    ("fields", "kind", "wanted"),
    [
        ({}, "skew", True),
        ({"severity": "critical"}, "skew", False),
        ({"severity": "critical"}, "storm", True),
        ({"groups": "check.*"}, "storm", True),
        ({"groups": "check"}, "storm", False),
        ({"quiet_hours": "22:00-07:00"}, "skew", False),
        ({"quiet_hours": "22:00-07:00"}, "storm", True),
        ({"quiet_hours": "22:00-22:59"}, "skew", True),
        ({"quiet_hours": "12:00-13:00", "time_zone": "Pacific/Auckland"}, "skew", False),
    ],
)
def test_target_filters_incidents_by_group_severity_and_hour(fields: dict[str, Any], kind: str, wanted: bool) -> None:
    incidents = OpenIncidents(target(**fields))
    opened = incidents.notifications(incident("checkout", kind=kind, opened_at=NIGHT_MS))
    closed = incidents.notifications(incident("checkout", kind=kind, opened_at=NIGHT_MS, closed_at=NIGHT_MS * 2))
    assert [notification.action for notification in (*opened, *closed)] == (["open", "close"] if wanted else [])


def test_closed_episode_above_the_downtime_limit_is_notified() -> None:
    (record,) = episode_records(DiffBuilder(group_id="g").join("a"))
    episode = msgspec.structs.replace(record.episode, downtime=Downtime(0, None, longest_ms=(3000, None)))
    assert episode_notification(target(), episode) is None
    assert episode_notification(target(episode_downtime_ms=3001), episode) is None
    notification = episode_notification(target(episode_downtime_ms=3000), episode)
    assert notification is not None
    assert (notification.id, notification.action) == ("g/episode/1", "event")
    assert (notification.severity, notification.text) == ("info", episode.story)
    open_episode = msgspec.structs.replace(episode, closed_at=None)
    assert episode_notification(target(episode_downtime_ms=0), open_episode) is None


def test_template_has_the_fields_of_the_notification() -> None:
    (opened,) = OpenIncidents(target()).notifications(incident("g", story="costs $5"))
    assert notification_text(target(), opened) == "critical: g storm: costs $5"
    template = "[$severity] $group $kind $unknown"
    assert notification_text(target(template=template), opened) == "[critical] g storm $unknown"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "slack", "url": ""}, "setting notify.0: url: missing; slack needs the address of the webhook"),
        ({"url": "ftp://x"}, "setting notify.0.url: 'ftp://x' is not an http or https URL"),
        ({"groups": "("}, "setting notify.0.groups: '(' is not a regular expression"),
        ({"time_zone": "Mars"}, "setting notify.0.time_zone: 'Mars' is not a time zone, such as Europe/Berlin"),
        ({"quiet_hours": "25:00-07:00"}, "setting notify.0.quiet_hours: "),
        ({"sevrity": "info"}, "setting notify.0.sevrity: unknown; did you mean "),
    ],
)
def test_wrong_targets_are_refused(tmp_path: Any, fields: dict[str, Any], message: str) -> None:
    values = {"name": "ops", "type": "webhook", "url": "https://example.com"} | fields
    path = tmp_path / "monitor.toml"
    path.write_text("[[notify]]\n" + "".join(f'{name} = "{value}"\n' for name, value in values.items()))
    with pytest.raises(BadInput) as refused:
        load(path)
    assert str(refused.value).startswith(message)


def test_crash_in_an_outage_is_notified_as_coordinator_move() -> None:
    crash = msgspec.structs.replace(episode_records(DiffBuilder().join("a").join("b"))[-1].episode, kind="crash")
    times = {"opened_at": crash.opened_at, "closed_at": crash.opened_at + 1}
    open_incidents = OpenIncidents(target())
    away = incident("(cluster)", 4, kind="broker-restart", scope="cluster", groups=[crash.group_id], **times)
    open_incidents.notifications(away)
    notification = episode_notification(target(episode_downtime_ms=0), open_incidents.explain(crash))
    assert notification is not None
    assert (notification.kind, "(cluster incident 4)" in notification.text) == ("coordinator-move", True)


def test_pauses_that_become_known_later_are_not_notified() -> None:
    open_incidents = OpenIncidents(target())
    closed = incident("(cluster)", 4, kind="coordinator-moved", scope="cluster", closed_at=200)
    pauses = GroupPauses(groups={"g": (9000, 10_000)})
    assert [n.action for n in open_incidents.notifications(closed)] == ["open", "close"]
    assert open_incidents.notifications(msgspec.structs.replace(closed, updated_at=300, pauses=pauses)) == []
    again = msgspec.structs.replace(closed, closed_at=900, updated_at=900, times=2)
    assert [n.action for n in open_incidents.notifications(again)] == ["open", "close"]
