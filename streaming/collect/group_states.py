"""Requests the rebalancing groups every second, with one ListGroups request per broker.

The requests use kafka-python, because librdkafka lists only consumer groups and lacks the states of KIP-848.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streaming.collect.rebalances import REBALANCING_STATES, ListedGroup
from streaming.kafka.clients import CLIENT_ID, Closeable
from streaming.kafka.security import kafka_python
from streaming.settings.connection import KafkaSettings

_log = logging.getLogger(__name__)
_LIST_INTERVAL_SECONDS: Final = 1.0
#: The rebalancing states as kafka-python spells them, such as ``PREPARING_REBALANCE``.
_STATE_NAMES: Final = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper() for state in REBALANCING_STATES]


class RebalancingGroups(NamedTuple):
    """The rebalancing groups in the last ListGroups answers; ``complete``: every broker has answered."""

    number: int = 0
    groups: Mapping[str, ListedGroup] = {}
    complete: bool = False


class GroupStates(Closeable):
    """Lists the rebalancing groups in a background thread; repeats requests while the cluster does not answer."""

    def __init__(self, settings: KafkaSettings, is_wanted: Callable[[str], bool]) -> None:
        self._settings, self._is_wanted_group = settings, is_wanted
        self.latest = RebalancingGroups()
        self._stopping = threading.Event()
        self._reported: str | None = None
        self._has_seen_groups = False
        self._thread = threading.Thread(target=self._run, name="group-states", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread that requests the list of rebalancing groups."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._list_groups_repeatedly()
            except Exception as error:  # noqa: BLE001 - the collector continues without group states
                self.latest = RebalancingGroups(self.latest.number + 1)
                self._report(f"{type(error).__name__}: {error}")
                self._stopping.wait(5.0)

    def _report(self, trouble: str | None) -> None:
        if trouble != self._reported and not self._stopping.is_set():
            _log.info("states of groups are requested" if trouble is None else f"states of groups: {trouble}")
            self._reported = trouble

    def _list_groups_repeatedly(self) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it logs each failed connection; see _report
        timeouts = {"bootstrap_timeout_ms": 5000, "request_timeout_ms": 5000, "reconnect_backoff_max_ms": 1000}
        with KafkaAdminClient(**kafka_python(self._settings) | timeouts, client_id=CLIENT_ID) as client:
            brokers: list[int] = []
            while not self._stopping.is_set():
                if self.latest.number % 15 == 0 or not brokers:
                    brokers = [broker["broker_id"] for broker in client.describe_cluster()["brokers"]]
                    self._has_seen_groups = self._has_seen_groups or bool(client.list_groups(broker_ids=brokers))
                self._request(client, brokers)
                self._stopping.wait(_LIST_INTERVAL_SECONDS)

    def _request(self, client: KafkaAdminClient, brokers: list[int]) -> None:
        groups: dict[str, ListedGroup] = {}
        trouble = None
        for broker in brokers:
            try:
                groups |= self._list_groups_of_broker(client, broker)
            except KafkaError as error:
                trouble = f"broker {broker}: {type(error).__name__}: {error}"
        if not self._has_seen_groups:
            trouble = trouble or "no group can be seen; this user needs Describe on groups, where there are any"
        self._has_seen_groups = self._has_seen_groups or bool(groups)
        self._report(trouble)
        self.latest = RebalancingGroups(self.latest.number + 1, groups, complete=trouble is None)

    def _list_groups_of_broker(self, client: KafkaAdminClient, broker: int) -> dict[str, ListedGroup]:
        listed: list[dict[str, Any]] = client.list_groups(broker_ids=[broker], states_filter=_STATE_NAMES)
        wanted = [group for group in listed if self._is_wanted_group(group["group_id"])]
        classic = [group["group_id"] for group in wanted if (group.get("group_type") or "classic").lower() == "classic"]
        descriptions: dict[str, dict[str, Any]] = {}
        try:
            descriptions = client.describe_groups(classic, group_coordinator_id=broker) if classic else {}
        except Exception as error:  # noqa: BLE001 - kafka-python decodes what clients wrote, which may raise anything
            _log.debug("groups of broker %d: %s: %s", broker, type(error).__name__, error)
        members = {
            group_id: frozenset(member["member_id"] for member in group["members"])
            for group_id, group in descriptions.items()
            if group["error"] is None
        }
        return {item["group_id"]: ListedGroup(item["group_state"], members.get(item["group_id"])) for item in wanted}
