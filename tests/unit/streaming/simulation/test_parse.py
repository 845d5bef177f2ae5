import pytest

from streaming.simulation import builtin_scenarios
from streaming.simulation.parse import load_scenario, parse_document
from streaming.simulation.scenario import InvalidScenario

JOIN = "{at: 0, join: c1, topics: [t]}"


INVALID_EVENTS = [
    ("{at: 0, join: c1, topcis: [t]}", "event 1 (join c1): topcis: unknown (did you mean topics?)"),
    ("{at: 0, jion: c1}", "event 1: jion: unknown (did you mean join?)"),
    ("{at: 0, topics: [t]}", "event 1: has nothing"),
    ("{at: 0, join: c1, leave: c1}", "event 1: has both join and leave"),
    ("{join: c1}", "event 1 (join c1): at: missing"),
    ("{at: -1, join: c1}", "event 1 (join c1): at: Expected `int` >= 0"),
    ("{at: true, join: c1}", "event 1 (join c1): at: Expected `int`, got `bool`"),
    ("{at: 1.5, join: c1}", "event 1 (join c1): at: Expected `int`, got `float`"),
    ("{at: 0, join: 7}", "event 1 (join): join: Expected `str`, got `int`"),
    ("{at: 0, join: c1, topics: t}", "event 1 (join c1): topics: Expected `array | null`, got `str`"),
    ("{at: 0, join: c1, topics: [tt]}", "event 1 (join c1): topics: 'tt' is not a topic of this scenario"),
    ("{at: 0, join: c1, instance_id: 3}", "event 1 (join c1): instance_id: Expected `str | null`, got `int`"),
    ("{at: 0, join: c1, group_protocol: new}", "group_protocol: Invalid enum value 'new'"),
    (f"{JOIN}, {{at: 5, join: c1}}", "event 2 (join c1): join: 'c1' is a member since 0 ms"),
    (f"{JOIN}, {{at: 5, bounce: c1}}", "event 2 (bounce c1): down_ms: missing"),
    (f"{JOIN}, {{at: 5, subscribe: c1}}", "event 2 (subscribe c1): topics: missing"),
    (f"{JOIN}, {{at: 5, leave: c1, topics: [t]}}", "event 2 (leave c1): topics: unknown"),
    ("{at: 9, join: c1}, {at: 3, leave: c1}", "event 2 (leave c1): at: 3 is earlier than 9"),
    ("{at: 0, leave: c1}", "event 1 (leave c1): leave: 'c1' has not joined"),
    (f"{JOIN}, {{at: 5, crash: c1}}, {{at: 6, leave: c1}}", "event 3 (leave c1): leave: 'c1' crashed at 5 ms"),
    (f"{JOIN}, {{at: 5, leave: c1}}, {{at: 6, bounce: c1, down_ms: 1}}", "event 3 (bounce c1): bounce: 'c1' left"),
    (
        f"{JOIN}, {{at: 5, bounce: c1, down_ms: 9}}, {{at: 6, bounce: c1, down_ms: 9}}",
        "event 3 (bounce c1): bounce: 'c1' is down until 14 ms",
    ),
    (f"{JOIN}, {{at: 5, partitions: {{t: 3}}}}", "event 2 (partitions): partitions.t: 3 is fewer than its 4"),
    (f"{JOIN}, {{at: 5, partitions: {{u: 3}}}}", "event 2 (partitions): partitions: 'u' is not a topic"),
    (f"{JOIN}, {{at: 5, partitions: 3}}", "event 2 (partitions): partitions: Expected `object`, got `int`"),
    ("7", "event 1: a mapping such as"),
    ("{at: 0, join: c1, at: 5}", "scenario: at: appears twice"),
    (f"{JOIN}, {{at: 5, partitions: {{t: 5, t: 6}}}}", "scenario: t: appears twice"),
    ("{at: 0, join: c1, assignors: [rnage]}", "event 1 (join c1): assignors: 'rnage' is not one of range, roundrobin"),
    ('{at: 0, join: ""}', "event 1 (join): join: a member's name is needed"),
    ('{at: 0, join: "a\\u0000"}', "event 1 (join): join: a member's name is needed"),
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"{{topics: {{t: 4}}, events: [{events}]}}", message) for events, message in INVALID_EVENTS),
        ("", "scenario: Expected `object`, got `null`"),
        ("[1]", "scenario: Expected `object`, got `array`"),
        ("{topics: {t: 1}", "scenario: neither YAML nor JSON"),
        ("{topics: {t: 1, t: 2}, events: []}", "scenario: t: appears twice"),
        ('{"topics": {"t": 1}, "topics": {"t": 2}, "events": []}', "scenario: topics: appears twice"),
        ("{topics: {t: 1}, ? [a] : b}", "scenario: line 1: a key is not plain text"),
        ("!!python/object:os.system {}", "tags are not read; leave it out"),
        ("topics: {t: 2020-99-99}\nevents: []", "scenario: topics.t: Expected `int`, got `str`"),
        ("[" * 5000, "scenario: n"),
        ("topics: {t: 1}", "scenario: events: missing"),
        ("events: []", "scenario: topics: missing"),
        ("{topics: [t], events: []}", "scenario: topics: Expected `object`, got `array`"),
        ("{topics: {t: x}, events: []}", "scenario: topics.t: Expected `int`, got `str`"),
        ("{topics: {t: 1}, events: {}}", "scenario: events: Expected `array`, got `object`"),
        ("{topics: {t: 1}, event: [], events: []}", "scenario: event: unknown (did you mean events?)"),
        ("{topics: {t: 1}, events: [], session_timeout_ms: 0}", "scenario: session_timeout_ms: Expected `int` >= 1"),
        ("{topics: {t: {partitions: 2, racks: [[a]]}}, events: []}", "scenario: topics.t: racks: 1 entries for 2"),
    ],
)
def test_invalid_scenario_or_event_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidScenario) as error:
        load_scenario(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_json_scenario_equals_yaml_scenario() -> None:
    yaml = "topics: {t: 4}\nevents:\n  - {at: 0, join: c1, topics: [t], instance_id: i}\n"
    json = '{"topics": {"t": 4}, "events": [{"at": 0, "join": "c1", "topics": ["t"], "instance_id": "i"}]}'
    assert load_scenario(yaml) == load_scenario(json)


def test_a_member_that_left_subscribes_again() -> None:
    events = f"{JOIN}, {{at: 5, leave: c1}}, {{at: 9, subscribe: c1, topics: [t]}}"
    plan = load_scenario(f"{{topics: {{t: 4}}, events: [{events}]}}")
    assert list(map(str, plan.events)) == ["event 1 (join c1)", "event 2 (leave c1)", "event 3 (subscribe c1)"]


LIMITS = {
    "aliases that grow": "a: &a [x, x]\nb: &b [*a, *a]\ntopics: *b\nevents: []",
    "a merge": "a: &a {t: 1}\ntopics: {<<: *a}\nevents: []",
    "a tag": "topics: {t: !!bool maybe}\nevents: []",
    "a number without digits": "topics: {t: 0b_}\nevents: []",
    "a number of sixties": "topics: {t: 1" + ":1" * 5000 + "}\nevents: []",
    "digits in base 16": "topics: {t: 0x" + "f" * 5000 + "}\nevents: []",
    "no number": '{"topics": {"t": NaN}, "events": []}',
    "infinite": '{"topics": {"t": 1e999}, "events": []}',
    "half a letter": '{"topics": {"\\ud800": 1}, "events": []}',
    "braces": '{"a":' * 5000,
    "dashes": "- " * 5000,
    "two documents": "a: b\n---\nc: d",
    "NUL": "\0",
    "a list as key": "? [a]\n: b",
}


@pytest.mark.parametrize("name", LIMITS)
def test_too_long_or_multiline_error_is_one_short_line(name: str) -> None:
    with pytest.raises(InvalidScenario) as error:
        load_scenario(LIMITS[name])
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("topics: {t: 1}\nevents: [{at: %d, join: c}]", (2147483647, 2147483648)),
        ("topics: {t: %d}\nevents: []", (200_000, 200_001)),
        ("topics: {t: 1, u: %d}\nevents: []", (199_999, 200_000)),
        ("topics: {t: 1}\nevents: [{at: 0, partitions: {t: %d}}]", (200_000, 200_001)),
        ("topics: {t: 1}\nevents: []\nsession_timeout_ms: %d", (1, 0)),
        ("topics: {t: 1}\nevents: []\nrebalance_timeout_ms: %d", (1, 0)),
        ("topics: {t: 1}\nevents: []\nscheduled_rebalance_delay_ms: %d", (0, -1)),
        ("topics: {t: 1}\nevents: []\nmetadata_max_age_ms: %d", (0, -1)),
        ("topics: {t: %d}\nevents: []", (0, -1)),
        ("topics: {t: 1}\nevents: [{at: 0, join: c}, {at: 0, pause: c, down_ms: %d}]", (0, -1)),
    ],
)
def test_largest_number_is_accepted_and_one_more_refused(text: str, more: tuple[int, int]) -> None:
    accepted, refused = more
    load_scenario(text % accepted)
    with pytest.raises(InvalidScenario, match=r"Expected `int` [<>]=|the limit is 200000"):
        load_scenario(text % refused)


@pytest.mark.parametrize(
    ("text", "repeated_text", "most"),
    [("topics: {t: 1}\nevents: []\n#", "x", 1_048_576), ('{"topics": {"t": 1}, "events": []}', " ", 16_777_216)],
)
def test_longest_text_is_accepted_and_one_more_refused(text: str, repeated_text: str, most: int) -> None:
    longest = text + repeated_text * (most - len(text))
    load_scenario(longest)
    with pytest.raises(InvalidScenario, match=f"has more than {most} characters"):
        load_scenario(longest + repeated_text)


def test_nesting_and_digits_are_limited() -> None:
    for opened, closed in (('{"a": ', "}"), ("{a: ", "}"), ("[", "]")):
        for kind in ("1", "[]"):
            max_depth = 20 if kind == "1" else 19
            parse_document(opened * max_depth + kind + closed * max_depth)
            with pytest.raises(InvalidScenario, match="nested deeper than the limit, 20"):
                parse_document(opened * 21 + kind + closed * 21)
    for written in ('{"a": %s}', "a: %s"):
        assert parse_document(written % ("9" * 40)) == {"a": 10**40 - 1}
        with pytest.raises(InvalidScenario, match=r"a number has 41 .*; the limit is 40"):
            parse_document(written % ("9" * 41))


def test_unquoted_date_in_a_scenario_is_text() -> None:
    scenario = load_scenario("topics: {t: 1}\nevents: [{at: 0, join: a, rack_id: 2024-01-02}]")
    assert scenario.events[0].rack_id == "2024-01-02"


@pytest.mark.parametrize(
    ("members", "partitions", "message"),
    [
        (1_000_000, None, "--members: 1000000; at least 1, at most 1000"),
        (0, None, "--members: 0; at least 1, at most 1000"),
        (None, 10**9, "--partitions: 1000000000; at least 1, at most 200000"),
    ],
)
def test_size_of_a_built_in_scenario_is_bounded(members: int | None, partitions: int | None, message: str) -> None:
    for name in builtin_scenarios.BUILTIN_SCENARIOS:
        with pytest.raises(InvalidScenario) as error:
            builtin_scenarios.load_builtin_scenario(name, members, partitions)
        assert str(error.value) == message


def test_every_built_in_scenario_runs_at_its_largest_size() -> None:
    for name in builtin_scenarios.BUILTIN_SCENARIOS:
        largest = builtin_scenarios.load_builtin_scenario(name, builtin_scenarios.MAX_MEMBERS, 1)
        assert len(largest.events) >= builtin_scenarios.MAX_MEMBERS
