import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_compatibility_claims_name_existing_tests() -> None:
    text = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
    named = re.findall(r"`(tests/[\w./]+)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
