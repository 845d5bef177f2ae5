from tests.support.scripts import check


def test_the_picture_is_what_the_imports_say_and_the_walk_what_a_record_does() -> None:
    assert check("architecture.py") == (0, "")
