"""Delivery of notifications to a real HTTP server that fails in every possible way."""

import pytest

from streaming.kafka.topic_follower import StopRequested
from streaming.notify.requests import Request
from streaming.notify.sender import Rejection, Sender
from tests.support.receiver import Response, receiver


def sender(waits: list[float], *, most: int = 100, allow_private: bool = True) -> Sender:
    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > most:
            raise StopRequested

    return Sender("ops", wait, allow_private=allow_private)


def posted_request(url: str) -> Request:
    return Request(url, {"content-type": "application/json"}, b'{"id": "1"}')


@pytest.mark.parametrize(
    "failures",
    [[Response(500), Response(503)], [Response(429, {"retry-after": "7"})], [Response(close=True)]],
    ids=["5xx", "429", "closed in the middle"],
)
def test_failed_request_is_sent_again(failures: list[Response]) -> None:
    waits: list[float] = []
    with receiver(*failures) as received:
        sender(waits).send(posted_request(received.url))
    assert received.ids() == ["1"]
    assert len(waits) == len(failures)
    if failures[0].headers:
        assert waits == [7.0]


def test_waits_grow_up_to_a_minute() -> None:
    waits: list[float] = []
    with receiver(*[Response(500)] * 12) as received:
        sender(waits).send(posted_request(received.url))
    assert len(waits) == 12
    assert waits[0] < 2
    assert waits[-1] == 60


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 410])
def test_redirect_or_client_error_is_not_retried(status: int) -> None:
    with (
        receiver(Response(status, {"location": "/elsewhere"})) as received,
        pytest.raises(Rejection, match=str(status)),
    ):
        sender([]).send(posted_request(received.url))
    assert len(received.requests) == 1


def test_private_addresses_are_refused() -> None:
    with receiver() as received, pytest.raises(Rejection, match="not a public address; set allow_private"):
        sender([], allow_private=False).send(posted_request(received.url.replace("127.0.0.1", "localhost")))
    assert received.requests == []


def test_stop_interrupts_the_retries() -> None:
    with receiver() as received:
        url = received.url
    with pytest.raises(StopRequested):
        sender([], most=3).send(posted_request(url))
