"""An anonymised log contains no original name, and gives the same stories as the original log."""

import re
from typing import Any
from uuid import UUID

from streaming.monitor.outputs import SOURCE
from streaming.recording.anonymise import anonymised
from streaming.recording.file import RecordedSettings, record_log
from streaming.recording.history import RecordedHistory
from streaming.records import events
from streaming.records.codec import Record, encode_event
from streaming.records.events import Event, Evidence, ObservedMember
from tests.support.pure_stream import SINKS
from tests.support.recorded import membership_log
from tests.unit.streaming.recording.test_history import log_records

SETTINGS = RecordedSettings.of(SINKS)
GROUP, TOPIC, RACK = "acme-payments", "acme.ledger.v1", "eu-west-1a"
MEMBERS = [f"acmeworker-{number}-{UUID(int=number * 7919)}" for number in range(1, 4)]
SECRET_WORDS = ("acme", "ledger", "west", "192.168", "acmehost", "deploy of", "secret", "ann", "ACME", "orchid")


def observed(generation: int, members: list[str], reason: str) -> events.GroupObserved:
    return events.GroupObserved(
        group_id=GROUP,
        timestamp=1_700_000_000_000 + generation * 1000,
        generation=generation,
        protocol="range",
        leader=members[0],
        evidence=[Evidence(source="coordinator-log", reason=reason, member_ids=members[:1], kind="member.joined")],
        members=[
            ObservedMember(
                member_id=member,
                topics=[TOPIC],
                assigned={TOPIC: [place]},
                client_id=f"acmeworker-{place}",
                client_host=f"/192.168.7.{place}",
                group_instance_id=f"orchid-{place}",
                rack_id=RACK,
                endpoint=f"http://acmehost-{place}:8083/",
            )
            for place, member in enumerate(members)
        ],
    )


def log() -> list[Record]:
    first = f"Adding new member {MEMBERS[0]} with group instance id orchid-0; client reason: deploy of secret 2024.11"
    now = 1_700_000_003_000
    data: list[events.EventData] = [
        observed(1, MEMBERS[:2], first),
        observed(2, MEMBERS, f"removing member {MEMBERS[1]} on heartbeat expiration at 192.168.7.1."),
        events.GroupRebalancing(group_id=GROUP, timestamp=now, since=now, awaited=MEMBERS),
        events.IncidentAcknowledged(group_id=GROUP, timestamp=now, incident=1, by="ann", text="ACME knows"),
    ]
    return log_records([Event("acme-collector", f"{GROUP}/{number}", item) for number, item in enumerate(data)])


def recording(records: list[Record]) -> str:
    return "\n".join(repr(line) for line in record_log(records, 0, SETTINGS.sinks))


def test_anonymised_records_have_no_original_name() -> None:
    text = recording(anonymised(log(), SETTINGS.sinks))
    assert [secret for secret in (*SECRET_WORDS, GROUP, TOPIC, RACK, *MEMBERS) if secret in text] == []
    assert all(secret in recording(log()) for secret in SECRET_WORDS)


def test_reasons_keep_kafkas_words_but_ids_are_renamed() -> None:
    records = anonymised(log(), SETTINGS.sinks)
    text = (records[0].value or b"").decode()
    assert re.search(r'"reason":"Adding new member anon\d+-1-0{7}1-0000-4000-8000-0{12} with group instance', text)
    assert "client reason: … of … …" in text
    assert b"on heartbeat expiration at 10.0.0." in (records[1].value or b"")


def played(records: list[Record]) -> RecordedHistory:
    history = RecordedHistory(SETTINGS.sinks)
    for _ in history.play(records):
        pass
    return history


def story(records: list[Record]) -> list[tuple[Any, ...]]:
    return [(record.episode.kind, record.episode.status) for record in played(records).episodes]


def test_anonymised_log_gives_the_same_episodes() -> None:
    for seed in range(4):
        records = log_records(list(membership_log(300, 8, seed)))
        assert story(anonymised(records, SETTINGS.sinks)) == story(records)


def test_anonymised_quiet_events_refer_to_renamed_outputs() -> None:
    records = log()[:2]
    state = played(records).bucket.get(GROUP).episode
    assert state is not None
    quiet = events.GroupQuiet(group_id=GROUP, timestamp=1_700_000_200_000, after=state.last_note_id)
    key, value, headers = encode_event(Event(SOURCE, f"{GROUP}/quiet", quiet))
    records.append(Record.of(0, 2, key, value, [*headers]))
    assert story(records)[0][1] == "settled"
    assert story(anonymised(records, SETTINGS.sinks)) == story(records)
