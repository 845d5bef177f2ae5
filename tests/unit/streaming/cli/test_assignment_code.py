from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from assignors.registry import NATIVE_FUNCTIONS
from streaming.cli import doctor
from streaming.cli.doctor import AssignmentCode, assignment_code


def installed(monkeypatch: pytest.MonkeyPatch, *functions: str) -> None:
    monkeypatch.setitem(sys.modules, "rebalance_kernel", SimpleNamespace(**dict.fromkeys(functions)))


def absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide native code; return the file that records a failed build."""
    monkeypatch.delitem(sys.modules, "rebalance_kernel", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(doctor, "_FAILED", tmp_path / "without-kernel")
    return tmp_path / "without-kernel"


def test_all_requested_fields_are_present(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, *NATIVE_FUNCTIONS, "something_newer")
    assert assignment_code() == AssignmentCode("native", is_intended=True)


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (
            NATIVE_FUNCTIONS[:-1],
            f"partly in Python, as the native code is of another release and lacks {NATIVE_FUNCTIONS[-1]};",
        ),
        ((), "in Python, as the native code is of another release and lacks client_shares, range_target,"),
    ],
)
def test_native_code_of_another_release(monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], says: str) -> None:
    installed(monkeypatch, *there)
    found = assignment_code()
    assert (found.text.startswith(says), found.is_intended) == (True, False)


def test_native_code_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    absent(monkeypatch, tmp_path)
    (tmp_path / "rebalance_kernel.py").write_text('raise ImportError("libc is too old")\n')
    assert assignment_code() == AssignmentCode(
        "in Python, as the native code does not load (libc is too old); run `make packages`", is_intended=False
    )


def test_without_native_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed = absent(monkeypatch, tmp_path)
    assert assignment_code() == AssignmentCode(
        "in Python; with cargo installed, `make packages` builds the native code", is_intended=True
    )
    failed.touch()
    assert assignment_code() == AssignmentCode(
        "in Python, as kernel/ could not be built; `make packages` shows why", is_intended=False
    )
