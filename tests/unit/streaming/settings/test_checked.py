from __future__ import annotations

import pytest

from streaming.settings.config import Settings
from streaming.settings.section import InvalidSettings, validated


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(InvalidSettings) as refused:
        validated(Settings, {"kafka": {"sasl_pasword": "s3cret"}, "topics": {"prefx": "x"}})
    assert str(refused.value) == (
        "setting kafka.sasl_pasword: unknown; did you mean kafka.sasl_password?; "
        "setting topics.prefx: unknown; did you mean topics.prefix?"
    )
