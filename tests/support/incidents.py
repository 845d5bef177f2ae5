"""Generated incidents for tests."""

from typing import Any

from streaming.records.episodes import Incident


def incident(group_id: str, number: int = 1, *, closed_at: int | None = None, **fields: Any) -> Incident:
    """Return an incident of a group; the incident is open unless ``closed_at`` is set."""
    opened_at = fields.pop("opened_at", 100)
    defaults: dict[str, Any] = {
        "kind": "storm",
        "status": "open" if closed_at is None else "closed",
        "updated_at": opened_at if closed_at is None else closed_at,
        "times": 1,
        "member_ids": [],
        "partitions": {},
        "episode": None,
        "sure": True,
        "evidence": [],
        "story": f"{group_id} does not settle.",
    }
    return Incident(group_id=group_id, incident=number, opened_at=opened_at, closed_at=closed_at, **defaults | fields)
