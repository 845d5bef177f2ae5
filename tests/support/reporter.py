"""An application's member that reports itself, as a process.

``python -m tests.support.reporter SERVERS PREFIX GROUP MEMBER SESSION_TIMEOUT_MS``: it joins,
then sends a heartbeat three times a second until it is killed.
"""

from __future__ import annotations

import sys
import time

from streaming.kafka.producer import EventProducer
from streaming.settings.config import load
from streaming.wire.events import Event, MemberHeartbeat, MemberJoined


def main(servers: str, prefix: str, group_id: str, member_id: str, session_timeout_ms: str) -> None:
    with EventProducer(load(bootstrap_servers=servers, topic_prefix=prefix)) as producer:
        number = 0
        while True:
            now = int(time.time() * 1000)
            data = (
                MemberHeartbeat(group_id=group_id, timestamp=now, member_id=member_id)
                if number
                else MemberJoined(
                    group_id=group_id,
                    timestamp=now,
                    member_id=member_id,
                    topics=["t"],
                    session_timeout_ms=int(session_timeout_ms),
                )
            )
            producer.send(Event(f"/app/{member_id}", str(number), data))
            producer.flush()
            number += 1
            time.sleep(0.3)


if __name__ == "__main__":
    main(*sys.argv[1:])
