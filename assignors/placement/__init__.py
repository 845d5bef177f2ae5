"""Where Kafka puts the replicas of new partitions, and how even an existing placement is."""

from __future__ import annotations

from assignors.placement.evenness import Evenness, Move, check_placement
from assignors.placement.replicas import (
    Broker,
    InvalidPlacement,
    InvalidReplicationFactor,
    Placement,
    assign_replicas,
    place_striped,
    rack_alternated,
)

__all__ = [
    "Broker",
    "Evenness",
    "InvalidPlacement",
    "InvalidReplicationFactor",
    "Move",
    "Placement",
    "assign_replicas",
    "check_placement",
    "place_striped",
    "rack_alternated",
]
