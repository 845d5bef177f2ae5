import pytest

from streaming.process import MAX_MESSAGE_CHARACTERS, escape_unprintable, print_line, warn


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-c1 ↔ é 日本 😀", "orders-c1 ↔ é 日本 😀"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nerror: b\r\tc", "a\\nerror: b\\r\\tc"),
        ("\x7f\x85\x9b31m", "\\x7f\\x85\\x9b31m"),
        ("\u202etxt\u2066\u200b\u2028\u2029\ufeff", "\\u202etxt\\u2066\\u200b\\u2028\\u2029\\ufeff"),
        ("\ud800\U000e0041", "\\ud800\\U000e0041"),
        ("", ""),
    ],
)
def test_terminal_control_characters_are_escaped(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown
    assert escape_unprintable(shown) == shown


def test_multiline_text_is_printed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\nb\x1b[2J")
    warn("c\nd\x1b[2J")
    assert capsys.readouterr() == ("a\\nb\\x1b[2J\n", "c\\nd\\x1b[2J\n")


def test_a_message_that_quotes_megabytes_is_cut_in_the_middle(capsys: pytest.CaptureFixture[str]) -> None:
    warn("begin" + "x" * 10**6 + "end")
    errors = capsys.readouterr().err
    assert len(errors) < MAX_MESSAGE_CHARACTERS + 10
    assert errors.startswith("beginxxx")
    assert errors.endswith("xxxend\n")
