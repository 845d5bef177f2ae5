"""``[[notify]]``: receivers of notifications."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from streaming.settings.section import Pattern, Section

Severity = Literal["info", "warning", "critical"]
#: From the least to the most urgent.
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
#: Receivers whose API has one address for everybody.
_WITH_ADDRESS: Final = frozenset({"pagerduty", "opsgenie"})


class NotifyTarget(Section):
    """A receiver of notifications (``[[notify]]``)."""

    #: Names the target's consumer group; another name starts at the end of the topics.
    name: str = Field(pattern=r"^[a-zA-Z0-9._-]{1,100}$")
    type: Literal["slack", "teams", "pagerduty", "opsgenie", "webhook"]
    #: Left out for pagerduty and opsgenie: their public API.
    url: str = ""
    #: File with the routing key (pagerduty), API key (opsgenie) or signing secret (webhook).
    secret_file: Path | None = None
    #: Regular expression for whole group ids.
    groups: Pattern = ".*"
    #: Least severity of incidents.
    severity: Severity = "warning"
    #: Episodes with a longer single stop than this are sent when they are over; left out: none is.
    episode_downtime_ms: int | None = Field(default=None, ge=0)
    #: Local times between which only critical notifications are sent: ``22:00-07:00``.
    quiet_hours: str | None = Field(default=None, pattern=r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$")
    time_zone: str = "UTC"
    #: The message: ``$title``, ``$text``, ``$group``, ``$kind``, ``$severity``, ``$action``, ``$link``.
    template: str = "$title: $text"
    #: Address of the monitor's page, for links.
    page_url: str = ""
    #: Allow a receiver with a private, loopback or link-local address.
    allow_private: bool = False

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{name!r} is no time zone, such as Europe/Berlin") from error
        return name

    @field_validator("url", "page_url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname):
            raise ValueError(f"{url!r} is no http or https URL")
        return url

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if not self.url and self.type not in _WITH_ADDRESS:
            raise ValueError(f"url: missing; {self.type} needs the address of the webhook")
        return self
