from tests.support.scripts import check


def test_the_reference_is_what_the_code_says() -> None:
    assert check("reference.py") == (0, "")
