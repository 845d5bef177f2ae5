"""Which protocols run which assignors, from what the command line was given."""

from __future__ import annotations

from collections.abc import Sequence

from streaming.protocols.families import FAMILIES, carried
from streaming.protocols.vocabulary import ImpossiblePair


def pairs(protocols: Sequence[str], assignors: Sequence[str]) -> list[tuple[str, str]]:
    """``(protocol, assignor)`` for each protocol that was asked for (all when none was).

    An assignor is ``NAME``, for every protocol, or ``PROTOCOL=NAME``. With ``all``, a protocol that can't carry
    ``NAME`` takes its default; a protocol that was named refuses it.

    Raises:
        UnknownAssignor: there is no such protocol.
        ImpossiblePair: the protocol can't carry the assignor, or no protocol can.
    """
    everyone = not protocols or "all" in protocols
    chosen = list(FAMILIES) if everyone else list(dict.fromkeys(protocols))
    named: dict[str, str] = {}
    plain: str | None = None
    for word in assignors:
        protocol, equals, assignor = word.partition("=")
        if not equals:
            plain = word
            continue
        carried(protocol, assignor)
        if protocol not in chosen:
            raise ImpossiblePair(
                f"--assignor: {word}: the protocol {protocol} is not among {', '.join(chosen)}"
            )
        named[protocol] = assignor
    found = []
    for protocol in chosen:
        wanted = named.get(protocol, plain)
        if everyone and protocol not in named and wanted not in _carries(protocol):
            wanted = None
        found.append((protocol, carried(protocol, wanted)))
    if everyone and plain is not None and not any(plain in _carries(protocol) for protocol in chosen):
        known = dict.fromkeys(name for family in FAMILIES.values() for name in family.carries)
        raise ImpossiblePair(f"--assignor: no protocol can run {plain!r}; there are {', '.join(known)}")
    return found


def _carries(protocol: str) -> tuple[str, ...]:
    family = FAMILIES.get(protocol)
    return family.carries if family else ()
