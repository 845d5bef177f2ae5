import pytest

from streaming.records.diffs import MemberNames
from streaming.records.names import display_names, names_text, shorten_random_id, with_display_names

MEMBER_ID_A = "orders-1-3f2a9c7d-0000-0000-0000-000000000001"
MEMBER_ID_B = "orders-1-77aa9c7d-0000-0000-0000-000000000002"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"m": MemberNames("orders", "/10.0.0.1", "i-1")}, {"m": "i-1"}),
        ({"m": MemberNames("orders", "/10.0.0.1")}, {"m": "orders"}),
        # A static member's display name is its instance id; only other members are named by client id.
        (
            {"a": MemberNames("orders", "/10.0.0.1", "i-1"), "b": MemberNames("orders", "/10.0.0.2")},
            {"a": "i-1", "b": "orders"},
        ),
        ({"m": MemberNames(None, "/10.0.0.1")}, {}),
        ({"m": MemberNames("", "", "")}, {}),
        (
            {
                "a": MemberNames("orders", "/10.0.0.1"),
                "b": MemberNames("orders", "/10.0.0.2"),
                "c": MemberNames("other", "/h"),
            },
            {"a": "orders (10.0.0.1)", "b": "orders (10.0.0.2)", "c": "other"},
        ),
        (
            {MEMBER_ID_A: MemberNames("orders-1", "/10.0.0.1"), MEMBER_ID_B: MemberNames("orders-1", "/10.0.0.1")},
            {MEMBER_ID_A: "orders-1 (10.0.0.1, 3f2a…)", MEMBER_ID_B: "orders-1 (10.0.0.1, 77aa…)"},
        ),
        (
            {"O4ZHelk8SVWGgq4QmbZ7bg": MemberNames("rdkafka"), "-x9ZHelk8SVWGgq4QmbZ7b": MemberNames("rdkafka")},
            {"O4ZHelk8SVWGgq4QmbZ7bg": "rdkafka (O4ZHel…)", "-x9ZHelk8SVWGgq4QmbZ7b": "rdkafka (-x9ZHe…)"},
        ),
        (
            {"a": MemberNames("app-3f2a9c7d-0000-0000-0000-000000000001-StreamThread-1-consumer")},
            {"a": "app-3f2a…-StreamThread-1-consumer"},
        ),
    ],
    ids=["static", "client", "static-and-client", "host-alone", "empty", "hosts", "one-host", "kip-848", "streams"],
)
def test_member_has_a_readable_display_name(members: dict[str, MemberNames], expected: dict[str, str]) -> None:
    assert display_names(members) == expected


@pytest.mark.parametrize(
    ("member_ids", "text"),
    [
        ([], ""),
        (["x"], ""),
        (["a"], "anna"),
        (["a", "b"], "anna, bo"),
        (["b", "x"], "bo and 1 more"),
        (["x", "b"], "bo and 1 more"),
        (["a", "b", "c"], "anna and 2 more"),
    ],
    ids=["nobody", "unknown", "one", "two", "one-of-two", "the-other-of-two", "three"],
)
def test_member_lists_are_shortened(member_ids: list[str], text: str) -> None:
    assert names_text(member_ids, {"a": "anna", "b": "bo", "c": "cy"}) == text


def test_uuid_is_shortened_wherever_it_occurs() -> None:
    assert shorten_random_id(f"{MEMBER_ID_A} left") == "orders-1-3f2a… left"


def test_member_ids_in_texts_become_display_names() -> None:
    names = {"c1": "orders", "c10": "payments"}
    text = with_display_names("c1 and c10, not c100, c1-1 nor xc1", names)
    assert text == "orders and payments, not c100, c1-1 nor xc1"
    assert with_display_names("nobody", names) == "nobody"
    assert with_display_names("c1", {"c1": r"\1"}) == r"\1"
