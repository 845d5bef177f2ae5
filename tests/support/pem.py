"""Certificates that nobody but a test trusts."""

from __future__ import annotations

import subprocess
from pathlib import Path


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def certificate(folder: Path, name: str, *, locked_with: str | None = None) -> Path:
    """A certificate that signs itself, ``name.pem``, and its PKCS#8 key, ``name.key``, encrypted or not."""
    made = folder / f"{name}.pem"
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(made)),
        *(("-nodes",) if locked_with is None else ("-passout", f"pass:{locked_with}")),
    )
    return made
