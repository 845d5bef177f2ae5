from __future__ import annotations

from pathlib import Path

import pytest

from streaming.settings.config import CollectSettings
from streaming.settings.section import InvalidSettings


def test_group_options_follow_the_rules_of_the_settings() -> None:
    collect = CollectSettings()
    assert collect.narrowed() == collect
    with pytest.raises(InvalidSettings, match=r"setting collect\.include_groups\.0: '\(' is not a regular expression"):
        collect.narrowed(include_groups=["("])


def test_logs_and_polling_exclude_each_other() -> None:
    collect = CollectSettings()
    assert collect.narrowed(coordinator_logs=[Path("a")]).narrowed(coordinator_logs=[Path("b")]).coordinator_logs == [
        Path("a"),
        Path("b"),
    ]
    assert collect.narrowed(by="polling").by == "polling"
    with pytest.raises(InvalidSettings, match=r"setting collect: coordinator_logs: polling sees no generation"):
        collect.narrowed(by="polling", coordinator_logs=[Path("a")])
