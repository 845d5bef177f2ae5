"""Where Kafka puts the replicas of new partitions, and how even an existing placement is."""

from __future__ import annotations

from assignors.placement.admin_utils import assign_replicas, rack_alternated
from assignors.placement.evenness import Evenness, Move, check_placement
from assignors.placement.model import Broker, InvalidPlacement, InvalidReplicationFactor, Placement
from assignors.placement.striped import place_striped

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
