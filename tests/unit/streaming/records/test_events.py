import pytest

from streaming.records.events import POLLING, Evidence, GroupObserved, Kind


@pytest.mark.parametrize(
    ("kind", "protocol", "epochs", "tasks"),
    [
        ("consumer", "classic", False, False),
        ("consumer", "consumer", True, False),
        ("share", "share", True, False),
        ("streams", "classic", False, False),
        ("streams", "streams", True, True),
        ("connect", "classic", False, True),
    ],
)
def test_group_protocol_decides_epochs_and_tasks(kind: Kind, protocol: str, epochs: bool, tasks: bool) -> None:
    view = GroupObserved(group_id="g", timestamp=1, members=[], kind=kind, group_protocol=protocol)  # type: ignore[arg-type] # one of its literals
    assert (view.has_epochs, view.holds_tasks) == (epochs, tasks)


@pytest.mark.parametrize(("sources", "polled"), [([], False), (["a"], False), (["z"], False), (["a", POLLING], True)])
def test_evidence_of_polling_marks_a_group_as_polled(sources: list[str], polled: bool) -> None:
    evidence = [Evidence(source=source, reason="r") for source in sources]
    view = GroupObserved(group_id="g", timestamp=1, members=[], evidence=evidence)
    assert view.polled is polled
