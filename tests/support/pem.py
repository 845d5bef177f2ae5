"""Creates certificates for tests: self-signed, or signed by a self-signed certificate."""

import subprocess
from pathlib import Path


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def certificate(folder: Path, name: str, *, lock_phrase: str | None = None) -> Path:
    """Write a self-signed certificate to ``name.pem`` and its PKCS#8 key, optionally encrypted, to ``name.key``."""
    made = folder / f"{name}.pem"
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(made)),
        *(("-nodes",) if lock_phrase is None else ("-passout", f"pass:{lock_phrase}")),
    )
    return made


def signed_certificate(folder: Path, name: str) -> Path:
    """Write a certificate for 127.0.0.1, signed by ``authority.pem``, to ``name.pem``; its key to ``name.key``."""
    made, request, names = (folder / f"{name}.{kind}" for kind in ("pem", "csr", "cnf"))
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(request)),
    )
    openssl(
        *("x509", "-req", "-days", "2", "-in", str(request), "-out", str(made)),
        *("-CA", str(folder / "authority.pem"), "-CAkey", str(folder / "authority.key"), "-CAcreateserial"),
        *("-extfile", str(names)),
    )
    return made
