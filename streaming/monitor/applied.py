"""Which events a group has applied: what makes a repeated record change nothing.

The memory is the group's last :data:`REMEMBERED` events, as 64-bit fingerprints in the order of the log, so it
is decided by the log alone: never by time, batch or restart. Heartbeats and acknowledgements are not in it:
they change no diff, and there are so many that they would push out what matters. A repeat that arrives more
than :data:`REMEMBERED` changes of its own group later counts as new; producers repeat within seconds.
"""

from __future__ import annotations

from hashlib import blake2b

#: Events remembered for each group: at most 4 KiB of state, reached only by groups that changed as often.
REMEMBERED = 512
_SIZE = 8
#: What the memory of a group takes at most.
MOST_BYTES = REMEMBERED * _SIZE


def fingerprint(source: str, event_id: str) -> bytes:
    """64 bits of an event's identity: two of 10⁶ events collide with a chance of 3·10⁻⁸."""
    return blake2b(f"{source}\0{event_id}".encode(), digest_size=_SIZE).digest()


def contains(applied: bytes, mark: bytes) -> bool:
    """Whether the memory holds this fingerprint."""
    place = applied.find(mark)
    while place % _SIZE and place >= 0:  # found across two neighbours
        place = applied.find(mark, place + 1)
    return place >= 0


def remember(applied: bytes, mark: bytes) -> bytes:
    """The memory with this fingerprint as its newest."""
    return applied[_SIZE - MOST_BYTES :] + mark
