"""An outage of the monitor's cluster, while the application uses another cluster that stays available."""

from confluent_kafka import Consumer

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.topics import ensure_topics
from streaming.listener import Listener
from streaming.listener.listener import MAX_WAITING_EVENTS, MembershipReporter, read_clocks
from streaming.records.events import MemberJoined
from streaming.settings.config import load
from tests.support.kafka import PROPERTIES, Kafka, eventually, unique_name
from tests.support.live_stream import LiveStream
from tests.support.members import Share


def test_listener_events_survive_an_outage_of_the_monitor(broker: Kafka, written: str) -> None:
    group = unique_name("away")
    with EmbeddedBroker(properties=PROPERTIES) as monitor:
        settings = load(bootstrap_servers=monitor.bootstrap_servers)
        ensure_topics(settings)
        listener = Listener(settings)
        outbox = listener._outbox
        reporting_consumer = listener.wrap(Consumer)
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
        }

        def polled(*consumers: Consumer) -> dict[str, Share]:
            for consumer in consumers:
                consumer.poll(0.05)
            return {c.memberid(): {written: sorted(part.partition for part in c.assignment())} for c in consumers}

        def holding(*consumers: Consumer) -> bool:
            """Return true if the members own all six partitions, each member equally many."""
            counts = [len(share[written]) for share in polled(*consumers).values()]
            return counts == [6 // len(consumers)] * len(consumers)

        with LiveStream(settings) as live_stream:
            first, second = reporting_consumer(config), reporting_consumer(config)
            first.subscribe([written])
            eventually(lambda: polled(first) == live_stream.current_partitions(group) and holding(first))
            monitor.kill()
            # Meanwhile another member joins and leaves, and there are more events than the outbox keeps.
            second.subscribe([written])
            eventually(lambda: holding(first, second))
            (reporting_listener,) = [c for c in list(outbox._consumers) if first.memberid() in _reported_members(c)]
            for _ in range(MAX_WAITING_EVENTS):
                outbox.put(reporting_listener.membership.renewed(read_clocks()))
            second.close()
            eventually(lambda: holding(first))
            assert len(outbox._waiting_events) <= MAX_WAITING_EVENTS
            monitor.start()
            eventually(lambda: polled(first) == live_stream.current_partitions(group))
            first.close()
            eventually(lambda: live_stream.current_partitions(group) == {})
            assert [diff.cause.kind for diff in live_stream.rounds(group)][-1] == "member.left"
        listener.close(5)


def _reported_members(reporter: MembershipReporter) -> set[str]:
    return {e.data.member_id for e in reporter.membership.renewed(read_clocks()) if isinstance(e.data, MemberJoined)}
