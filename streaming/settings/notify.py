"""``[[notify]]``: receivers of notifications."""

from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from streaming.settings.section import Pattern, Section

Severity = Literal["info", "warning", "critical"]
#: Severities of notifications, from the least to the most urgent.
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
#: Receivers whose API has the same address for all customers.
_KINDS_WITH_DEFAULT_URL: Final = frozenset({"pagerduty", "opsgenie"})


class NotifyTarget(Section):
    """A receiver of notifications (``[[notify]]``)."""

    #: Name of the target, which is part of its consumer group's id; with a new name it starts at the end of the topics.
    name: str = Field(pattern=r"^[a-zA-Z0-9._-]{1,100}$")
    type: Literal["slack", "teams", "pagerduty", "opsgenie", "webhook"]
    #: Address of the receiver; the default for pagerduty and opsgenie is their public API.
    url: str = ""
    #: File that contains the routing key (pagerduty), the API key (opsgenie) or the signing secret (webhook).
    secret_file: Path | None = None
    #: Regular expression for whole group ids.
    groups: Pattern = ".*"
    #: Lowest severity of incidents that are sent.
    severity: Severity = "warning"
    #: Finished episodes with a longer stop of a single partition than this are sent; by default no episode is sent.
    episode_downtime_ms: int | None = Field(default=None, ge=0)
    #: Local times between which only critical notifications are sent, such as ``22:00-07:00``.
    quiet_hours: str | None = Field(default=None, pattern=r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$")
    time_zone: str = "UTC"
    #: Template of the message, with ``$title``, ``$text``, ``$group``, ``$kind``, ``$severity``, ``$action``,
    #: ``$link``.
    template: str = "$title: $text"
    #: Address of the monitor's page, to which links point, with ``?cluster=NAME`` if it shows several clusters.
    page_url: str = ""
    #: True if the receiver may have a private, loopback or link-local address.
    allow_private: bool = False

    @field_validator("time_zone")
    @classmethod
    def _check_time_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{name!r} is not a time zone, such as Europe/Berlin") from error
        return name

    @field_validator("url", "page_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname):
            raise ValueError(f"{url!r} is not an http or https URL")
        return url

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if not self.url and self.type not in _KINDS_WITH_DEFAULT_URL:
            raise ValueError(f"url: missing; {self.type} needs the address of the webhook")
        return self
