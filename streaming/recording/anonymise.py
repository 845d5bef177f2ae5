"""Anonymises a membership log: replaces the names of groups, topics, members, clients, hosts and racks.

Names are replaced token by token, each token always by the same one: ``checkout-7d4f`` → ``anon02-anon01``. So
prefixes, separators, short numbers and the order of names stay, on which assignors and kinds of episodes depend.
Of texts, only the words of Kafka's own messages stay. If an assignor breaks ties by the hash of a name, computed
assignments may differ from the original.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from streaming.monitor.outputs import SOURCE, Sinks
from streaming.recording.history import RecordedHistory
from streaming.records.codec import Record, encode_event, read
from streaming.records.events import Event

#: Fields with a fixed set of values, which are not names.
_ENUM_FIELDS: Final = frozenset({"groupProtocol", "protocolType", "state", "kind", "source", "topicId", "verdict"})
#: Fields with text for people.
_TEXT_FIELDS: Final = frozenset({"reason", "text"})
_HOST_FIELDS: Final = frozenset({"clientHost", "endpoint"})
_UUID: Final = re.compile(r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
#: Member ids of the consumer protocol.
_RANDOM_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_IP: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}")
_TOKEN: Final = re.compile(r"[^\W_]+")
#: Ids, IP addresses and words in a text.
_TEXT_PART_PATTERN: Final = re.compile(
    rf"(?P<id>{_UUID.pattern}|(?<![\w-]){_RANDOM_ID.pattern}(?![\w-]))|(?P<ip>{_IP.pattern})|(?P<token>{_TOKEN.pattern})"
)
_SHORT_NUMBER_PATTERN: Final = re.compile(r"[0-9]{1,3}")
#: Tokens that clients and Kafka itself put into names, and the names of assignors and protocols.
_KEPT_TOKENS: Final = frozenset(
    re.findall(
        r"\w+",
        "consumer client rdkafka kafka python sarama connect StreamThread range roundrobin sticky cooperative "
        "uniform stream streams default compatible sessioned eager",
    )
)
#: Words of the reasons that brokers, clients and the monitor give.
_KEPT_WORDS: Final = _KEPT_TOKENS | frozenset(
    re.findall(
        r"\w+",
        "a adding added after all an and another any are as assignment at be because been before broker brokers by "
        "capacity change changed classic close closed commit commits connection coordinator deleted downgrade due "
        "during enforceRebalance error expiration expired explicit failed fenced for freshly from generation group "
        "groups had has have heartbeat heartbeats id in instance interval is its join joined joining JoinGroup "
        "leader leave leaving LeaveGroup left loaded log max member members metadata missed ms moved new no not of "
        "offsets on or other out overran own partition partitions pending poll polled preparing probing protocol "
        "provided pushed re reason rebalance rebalanced rejoin rejoined removed removing replaced request restart "
        "revoked selectedProtocol session share state static storing subscription sync SyncGroup task tasks that "
        "the their them this time timed timeout to topic topics triggered under unsubscribe unsubscribed up "
        "updating was were when which while will with within without worker",
    )
)


def anonymised(log: Iterable[Record], sinks: Sinks) -> list[Record]:
    """Return the events of a membership log with replaced names, without records that are not events.

    The monitor's own events refer to ids of earlier outputs, which depend on names. So both logs are replayed.
    """
    events: list[tuple[Record, Event]] = []
    for record in log:
        with suppress(Exception):  # the stream refuses the record for the same reason
            events.append((record, read(record)))
    names = _NameReplacer(event for _, event in events)
    before, after = RecordedHistory(sinks), RecordedHistory(sinks)
    note_ids: dict[str, str] = {}
    renamed: list[Record] = []
    for record, event in events:
        fields = names.fields(msgspec.to_builtins(event.data))
        if "after" in fields:
            fields["after"] = note_ids.get(fields["after"], "")
        data = msgspec.convert(fields, type(event.data))
        place = (record.partition, record.offset)
        key, value, headers = encode_event(Event(names.source(event.source), names.id(event.id), data))
        new = Record.of(*place, key, value, [*headers])
        before.apply(record)
        after.apply(new)
        note_ids[_group_mark(before, event.data.group_id)] = _group_mark(after, data.group_id)
        renamed.append(new)
    return renamed


def _group_mark(history: RecordedHistory, group_id: str) -> str:
    """Return the record id to which the group's next ``group.quiet`` event refers: the last note of its episode."""
    episode = history.bucket.get(group_id).episode
    return "" if episode is None else episode.last_note_id


class _NameReplacer:
    """Maps the names in a membership log to anonymous names."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._tokens: set[str] = set()
        self._uuids: set[str] = set()
        self._hosts: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._new_name_by_token: dict[str, str] = {}
        for event in events:  # first all names, as their order decides
            self.fields(msgspec.to_builtins(event.data))
        width = len(str(len(self._tokens)))
        self._new_name_by_token = {token: f"anon{rank:0{width}}" for rank, token in enumerate(sorted(self._tokens), 1)}
        for rank, uuid in enumerate(sorted(self._uuids), 1):
            is_random = _RANDOM_ID.fullmatch(uuid) is not None
            self._new_name_by_token[uuid] = f"{rank:022}" if is_random else f"{rank:08x}-0000-4000-8000-000000000000"

    def id(self, event_id: str) -> str:
        """Return an anonymous ``ce_id`` for an event's ``ce_id``."""
        return self._ids.setdefault(event_id, f"event-{len(self._ids) + 1}")

    def source(self, source: str) -> str:
        """Return an anonymous ``ce_source`` for an event's ``ce_source``; the monitor's own source is not replaced."""
        return source if source == SOURCE else self._sources.setdefault(source, f"source-{len(self._sources) + 1}")

    def fields(self, value: Any, field: str = "") -> Any:
        """Return a JSON value with all names in it anonymised; ``field``: the field that has this value."""
        if isinstance(value, dict):
            renamed = {}
            for key, part in value.items():
                # Other keys are names of topics or members.
                is_field = field in ("", "members", "evidence", "stops") or key in ("partitions", "racks", "topicId")
                renamed[key if is_field else self._rename(key)] = self.fields(part, key if is_field else field)
            return renamed
        if isinstance(value, list | tuple):
            return [self.fields(part, field) for part in value]
        if not isinstance(value, str) or field in _ENUM_FIELDS or field == "after":
            return value
        if field in _HOST_FIELDS:
            rank = len(self._hosts) + 1
            return self._hosts.setdefault(value, f"/10.{rank >> 16 & 255}.{rank >> 8 & 255}.{rank & 255}")
        return self._rename_text(value) if field in _TEXT_FIELDS else self._rename(value)

    def _rename(self, name: str) -> str:
        if _RANDOM_ID.fullmatch(name):
            return self._replace(name, self._uuids)
        parts = enumerate(_UUID.split(name))  # every other part is a UUID
        return "".join(self._replace(part, self._uuids) if at % 2 else self._rename_tokens(part) for at, part in parts)

    def _rename_tokens(self, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            token = match[0]
            is_kept_token = token in _KEPT_TOKENS or _SHORT_NUMBER_PATTERN.fullmatch(token)
            return token if is_kept_token else self._replace(token, self._tokens)

        return _TOKEN.sub(replace, text)

    def _replace(self, token: str, names: set[str]) -> str:
        names.add(token)
        return self._new_name_by_token.get(token, token)

    def _rename_text(self, text: str) -> str:
        """Return a text with replacements for known names, and without words that are not from Kafka's messages."""

        def replace(match: re.Match[str]) -> str:
            part = match[0]
            if part in self._new_name_by_token:
                return self._new_name_by_token[part]
            if match["ip"]:
                return self._hosts.get(f"/{part}", "/0.0.0.0")[1:]
            if match["token"]:
                return part if {part, part.lower()} & _KEPT_WORDS or _SHORT_NUMBER_PATTERN.fullmatch(part) else "…"
            return _TEXT_PART_PATTERN.sub(replace, part.replace("-", " ").replace("_", " "))

        return _TEXT_PART_PATTERN.sub(replace, text)
