"""Which topics stand under their names now: a topic that was deleted and made again is another topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streaming.kafka.clients import answer_of, confluent_config

if TYPE_CHECKING:
    from concurrent.futures import Future

    from streaming.kafka.offsets import Place
    from streaming.settings.connection import KafkaSettings

#: Seconds between two looks.
LOOK_SECONDS: Final = 0.25
#: Seconds that brokers have for an answer; without one the cluster counts as away.
_ANSWER_SECONDS: Final = 5.0


class Identity(NamedTuple):
    """A topic's id, as Kafka prints it, and how many partitions it has."""

    topic_id: str
    partitions: int


class Contact:
    """Whether the cluster answers; each change is news once."""

    def __init__(self) -> None:
        self._away = False

    def news(self, trouble: str | None) -> str | None:
        """What to tell of the last answer: ``trouble`` says why there was none."""
        if self._away == (trouble is not None):
            return None
        self._away = trouble is not None
        return f"no contact with Kafka ({trouble}): waiting for it" if self._away else "Kafka answers again"


class IdentityWatch:
    """Asks the cluster for its topics again and again, and never waits for the answer.

    Args:
        settings: how to reach the cluster.
        topics: their names.
        every: seconds between two questions.

    Attributes:
        trouble: why the last question has no answer; None when it has one.
        leaderless: partitions that nobody can read or write, as of the last answer.
    """

    def __init__(
        self, settings: KafkaSettings, topics: Iterable[str], *, every: float = LOOK_SECONDS
    ) -> None:
        from confluent_kafka.admin import AdminClient

        self.topics = tuple(topics)
        self.trouble: str | None = None
        self.leaderless: frozenset[Place] = frozenset()
        self._every = every
        self._next = float("-inf")
        self._asked: dict[str, Future[Any]] = {}
        self._settings = settings
        self._admin = AdminClient(confluent_config(settings))  # held: answers come only while it lives

    def look(self, now: float) -> Mapping[str, Identity | None] | None:
        """An answer that came since the last look, or None. The next question is asked when it is time.

        A topic that does not exist has None; one that this user may not describe is left out.
        """
        answer = self._answer()
        if self._asked and now > self._next + 2 * _ANSWER_SECONDS:
            self._renew("no answer")
        if not self._asked and now >= self._next:
            from confluent_kafka import TopicCollection

            self._next = now + self._every
            self._asked = self._admin.describe_topics(
                TopicCollection(list(self.topics)), request_timeout=_ANSWER_SECONDS
            )
        return answer

    def _renew(self, trouble: str) -> None:
        """Ask by a new client: one that lost its brokers may never answer again."""
        from confluent_kafka.admin import AdminClient

        self.trouble, self._asked = trouble, {}
        self._admin = AdminClient(confluent_config(self._settings))

    def _answer(self) -> dict[str, Identity | None] | None:
        from confluent_kafka import KafkaException

        if not self._asked or not all(future.done() for future in self._asked.values()):
            return None
        asked, self._asked = self._asked, {}
        found: dict[str, Identity | None] = {}
        leaderless: set[Place] = set()
        self.trouble = None
        for topic, future in asked.items():
            try:
                described = answer_of(future)
                found[topic] = Identity(str(described.topic_id), len(described.partitions))
                leaderless |= {(topic, one.id) for one in described.partitions if _has_no_leader(one)}
            except KafkaException as error:
                name = error.args[0].name()
                if name == "UNKNOWN_TOPIC_OR_PART":
                    found[topic] = None
                elif name != "TOPIC_AUTHORIZATION_FAILED":
                    self.trouble = error.args[0].str()
        if self.trouble is not None:
            self._renew(self.trouble)
            return None
        self.leaderless = frozenset(leaderless)
        return found


def _has_no_leader(partition: Any) -> bool:
    """Whether a described partition has none: the client names nobody, or a node without a number."""
    return partition.leader is None or partition.leader.id < 0


def identify(settings: KafkaSettings, topics: Iterable[str]) -> dict[str, Identity | None]:
    """The topics as they stand now; blocks.

    Raises:
        ClusterUnavailable: the cluster does not say.
    """
    import time

    from streaming.kafka.clients import ClusterUnavailable

    watch = IdentityWatch(settings, topics)
    by = time.monotonic() + 2 * _ANSWER_SECONDS
    while (found := watch.look(time.monotonic())) is None:
        if time.monotonic() > by:
            raise ClusterUnavailable(
                f"bootstrap_servers {settings.bootstrap_servers}: does not describe its topics "
                f"({watch.trouble or 'no answer'})"
            )
        time.sleep(0.01)
    return dict(found)
