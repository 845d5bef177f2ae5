"""Stored incidents of a group are opened, updated and closed."""

from streaming.episodes.incidents import IncidentState, StoredIncident, close_incidents, open_incident


def test_update_is_never_older_than_the_previous_one() -> None:
    """The collector's clock dates the report of a rebalance; the broker's clock dates the rebalance's end."""
    opened = open_incident(IncidentState(), StoredIncident("rebalance-stuck", "for a"), 1000, reopen_ms=0)
    updated_incident = open_incident(opened, StoredIncident("rebalance-stuck", "for b"), 900, reopen_ms=0)
    closed = close_incidents(updated_incident, ["rebalance-stuck"], 950)
    incident = closed.by_key["rebalance-stuck"]
    assert (incident.opened_at, incident.updated_at, incident.closed_at) == (1000, 1000, 950)
