from tests.support.scripts import check


def test_reference_pages_match_the_code() -> None:
    assert check("reference.py") == (0, "")
