"""Any client id, and any reason that a client gives, is read back from every message in any log layout."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.collect.broker_log.layouts import read_line
from streaming.collect.broker_log.log import BrokerLog
from tests.support.broker_logs import LOG_LAYOUTS, Layout
from tests.support.broker_messages import JAVA, JAVA_LOGGER, cases

#: Characters that no name contains: line ends, escapes, and the separator after a member id.
PRINTABLE_CHARACTERS = st.characters(exclude_categories=("C", "Zl", "Zp"), exclude_characters='\x1b"\\')
NAMES = st.text(PRINTABLE_CHARACTERS, min_size=1, max_size=60).map(str.strip).filter(bool)
#: Words that brokers log for a client without a reason.
REASONS = NAMES.filter(lambda reason: reason != "not provided")
MEMBERS = st.builds("{}-{}".format, NAMES, st.uuids())
#: In a layout without logger and thread the end of a message is undefined.
LAYOUT = st.sampled_from([layout for layout in LOG_LAYOUTS if layout.name != "nothing behind"])


@given(group=NAMES, member=MEMBERS, layout=LAYOUT, data=st.data())
def test_log_lines_are_parsed_to_their_events(group: str, member: str, layout: Layout, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(cases(group, member)))
    event = read_line(layout.render(case.message, case.logger))
    assert (event.kind, event.group_id, event.member_ids) == (case.kind, group, case.members)
    assert (event.reason, event.client_reason) == (case.reason, case.client_reason)
    assert event.timestamp.ms == layout.ms


@given(member=MEMBERS, reason=REASONS, layout=LAYOUT)
def test_client_reason_in_a_log_line_is_read_unchanged(member: str, reason: str, layout: Layout) -> None:
    left = "has left group through explicit `LeaveGroup` request"
    message = f"[Group g] Member {member} {left}; client reason: {reason}"
    prepare_line = (
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: Leader "
        f"{member} re-joining group during Stable; client reason: {reason})."
    )
    for text in (message, prepare_line):
        event = read_line(layout.render(f"{JAVA}{text}", JAVA_LOGGER))
        assert (event.member_ids, event.client_reason) == ((member,), reason)


@given(chunks=st.lists(st.binary(max_size=200) | st.just(b"[GroupId g] Member \nGroup "), max_size=10))
def test_any_bytes_are_decoded_or_rejected(chunks: list[bytes]) -> None:
    log = BrokerLog()
    for chunk in chunks:
        log.read(chunk)
    log.finish()
    assert log.counts.understood_messages <= log.counts.read
