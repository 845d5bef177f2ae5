from __future__ import annotations

import pytest

from streaming.kafka.closing import Closing


class Door(Closing):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_it_is_closed_once_whatever_happens() -> None:
    with Door() as door:
        assert door.closed == 0
    assert door.closed == 1
    with pytest.raises(ZeroDivisionError), Door() as door:
        raise ZeroDivisionError
    assert door.closed == 1
