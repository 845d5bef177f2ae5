import json

import pytest

from streaming.collect.broker_reasons import add_reasons, stop_event
from streaming.collect.fold import CollectedEvent, Fold
from streaming.records import codec
from tests.support.broker_logs import read_lines
from tests.support.offsets_topic import GOLDEN, captured_records

NAMES = {"5a0scAsoRdS8Ki4XL0hedw": "t", "OKMdhzJ5TU2q1sqNLVf-kQ": "u"}


@pytest.mark.parametrize("max_silence_ms", [None, 30_000])
@pytest.mark.parametrize("logged", [False, True])
def test_events_equal_the_recorded_bytes(logged: bool, max_silence_ms: int | None) -> None:
    log = read_lines(*((GOLDEN / "coordinator-4.3.1.log").read_text().splitlines() if logged else ()))
    events = []
    for partition, rows in sorted(captured_records().items()):
        fold = Fold("kafka://c/__consumer_offsets", partition, NAMES.__getitem__, max_silence_ms=max_silence_ms)
        for item in [item for row in rows for item in fold.add(row)] + fold.settle():
            assert isinstance(item, CollectedEvent)
            for event in add_reasons(item.event, log, item.previous), stop_event(item.event, log, item.previous):
                if event is None:
                    continue
                key, value, headers = codec.encode_event(event)
                events.append(
                    {
                        "logged": logged,
                        "surelyAliveMs": max_silence_ms,
                        "offset": item.record.offset,
                        "partition": partition,
                        "key": key.decode(),
                        "value": value.decode(),
                        "headers": {name: text.decode() for name, text in headers},
                    }
                )

    recorded_events = map(json.loads, (GOLDEN / "events-4.3.1.jsonl").read_text().splitlines())
    assert events == [
        case for case in recorded_events if (case["logged"], case["surelyAliveMs"]) == (logged, max_silence_ms)
    ]
