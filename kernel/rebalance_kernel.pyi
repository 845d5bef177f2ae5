from collections.abc import Sequence
from typing import TypeAlias

Answer: TypeAlias = tuple[Group, list[tuple[int, bytes]]]

class Group:
    @staticmethod
    def read(packed: bytes) -> Group | None: ...
    def write(self) -> bytes: ...
    def applied(self, mark: bytes) -> bool: ...
    def __len__(self) -> int: ...
    def member_ids(self) -> list[str]: ...
    def session_timeout_ms(self, member_id: str) -> int | None: ...
    def joined(
        self,
        group_id: str,
        mark: bytes,
        timestamp: int,
        member_id: str,
        topics: Sequence[str],
        assignors: Sequence[str],
        instance_id: str | None,
        session_timeout_ms: int | None,
        generation: int,
    ) -> Answer | None: ...
    def removed(
        self,
        group_id: str,
        mark: bytes,
        timestamp: int,
        member_id: str,
        kind: str,
        source: str,
        reason: str | None,
    ) -> Answer | None: ...
    def assignment(self, group_id: str) -> bytes | None: ...
