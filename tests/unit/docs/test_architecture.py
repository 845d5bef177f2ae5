from tests.support.scripts import check


def test_picture_matches_imports_and_trace_matches_calls() -> None:
    assert check("architecture.py") == (0, "")
