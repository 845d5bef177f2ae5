"""Values of membership events as other programs write them."""

from __future__ import annotations

import pytest

from streaming.wire.codec import MalformedEvent, decode_event
from streaming.wire.events import GroupObserved, MemberJoined, ObservedMember

CE = {"type": "member.joined", "id": "1", "source": "s"}


def test_null_counts_as_left_out_where_a_field_may_be() -> None:
    value = (
        b'{"groupId":"g","timestamp":1,"memberId":"c","topics":["t"],"owned":null,"generation":null,'
        b'"assignors":null,"groupProtocol":null,"rackId":null,"sessionTimeoutMs":7}'
    )
    assert decode_event(b"g", value, CE).data == MemberJoined(
        group_id="g", timestamp=1, member_id="c", topics=["t"], session_timeout_ms=7
    )


def test_so_it_does_inside_a_view_of_a_group() -> None:
    value = (
        b'{"groupId":"g","timestamp":1,"generation":2,"evidence":null,"members":[{"memberId":"c","topics":[],'
        b'"assigned":{"t":[0]},"owned":null,"pendingRevocation":null}]}'
    )
    assert decode_event(b"g", value, {**CE, "type": "group.observed"}).data == GroupObserved(
        group_id="g",
        timestamp=1,
        generation=2,
        members=[ObservedMember(member_id="c", topics=[], assigned={"t": [0]})],
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b'{"groupId":"g","timestamp":1,"memberId":null,"topics":[]}', "required field `memberId`"),
        (
            b'{"groupId":"g","timestamp":1,"memberId":"c","topics":[null]}',
            r"`str`, got `null` - at `\$.topics",
        ),
        (
            b'{"groupId":"g","timestamp":1,"memberId":"c","topics":[],"generation":"4","owned":null}',
            "generation",
        ),
        (b"null", "got `null`"),
    ],
)
def test_null_where_something_is_needed_is_refused(value: bytes, message: str) -> None:
    with pytest.raises(MalformedEvent, match=message):
        decode_event(b"g", value, CE)
