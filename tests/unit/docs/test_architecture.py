from tests.support.scripts import check


def test_architecture_page_matches_imports_and_calls() -> None:
    assert check("architecture.py") == (0, "")
