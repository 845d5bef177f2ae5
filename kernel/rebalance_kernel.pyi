from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Partitions: TypeAlias = dict[str, list[int]]
LastOwners: TypeAlias = dict[str, dict[int, str]]
#: The members after the round, their changes as JSON, unassigned partitions, those that moved, last owners,
#: whether a member that stayed gave something up.
Played: TypeAlias = tuple[tuple[Any, ...], bytes, Partitions, Partitions, LastOwners, bool]

def round_played(
    assignor: str,
    topics: Mapping[str, Any],
    members: tuple[Any, ...],
    past: tuple[Any, ...],
    before: Mapping[str, Partitions],
    last_owners: LastOwners,
    brings: bool,
) -> Played | None: ...
def repeated_members(
    before: bytes, spans: list[int], now: bytes
) -> tuple[bytes, list[int], list[int]] | None: ...
def read_heartbeats(key: bytes, values: list[bytes]) -> dict[str, int] | None: ...

#: Of a commit: its message's place, its group, topic, partition, when (ms), the offset.
Commit: TypeAlias = tuple[int, bytes, str, int, int | None, int | None]

def pass_over(
    messages: list[Any], at: int, partition: int, reached: int, followed: dict[bytes, Any]
) -> tuple[int, int, list[Commit]]: ...

#: ``{member id: share}``; a share is ``{topic: ascending partitions}``.
Assignment: TypeAlias = dict[str, dict[str, Sequence[int]]]

def client_shares(assignor: str, topics: Mapping[str, Any], members: Sequence[Any]) -> Assignment | None: ...
def range_target(topics: Mapping[str, Any], members: Sequence[Any]) -> Assignment | None: ...
def uniform_target(topics: Mapping[str, Any], members: Sequence[Any]) -> Assignment | None: ...
