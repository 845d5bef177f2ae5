from tests.support.scripts import check


def test_reference_matches_the_code() -> None:
    assert check("reference.py") == (0, "")
