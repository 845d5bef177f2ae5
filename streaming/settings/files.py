"""What stands in files of their own: secrets and certificates."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from streaming.settings.section import is_text


def secret_in(secret: SecretStr | None, name: str, file: Path | None) -> str:
    """The secret from its setting or its file, which ``name`` is the setting of; empty when there is neither.

    Raises:
        ValueError: the file does not hold one line of text; the message names the setting.
    """
    if secret is not None:
        return secret.get_secret_value()
    if file is None:
        return ""
    text = file.read_bytes().decode(errors="surrogateescape").strip()
    if not is_text(text):
        raise ValueError(f"{name} {file}: is not UTF-8 text")
    if len(text.splitlines()) > 1:  # Java's clients are given it on one line
        raise ValueError(f"{name} {file}: holds more than one line")
    return text


def pem_in(file: Path) -> str:
    """A PEM file as text; what stands around its blocks may be in any encoding."""
    return file.read_bytes().decode("ascii", errors="replace")


def require_pem(files: Mapping[str, Path], key_password: str) -> None:
    """Says of the files, by their settings, what librdkafka would say with OpenSSL's numbers.

    Raises:
        ValueError: one holds no certificate, or the key does not fit; the message names the setting.
    """
    for name in ("ssl_ca_file", "sasl_oauthbearer_ca_file"):
        if name in files:
            _require_authorities(name, files[name])
    if "ssl_certificate_file" not in files or "ssl_key_file" not in files:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate, key = files["ssl_certificate_file"], files["ssl_key_file"]
    try:
        # A password is always given: without one OpenSSL asks for it on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: key_password)
    except ssl.SSLError as error:
        says = (
            "is not the key of ssl_certificate_file"
            if error.reason == "KEY_VALUES_MISMATCH"
            else "can't be opened with ssl_certificate_file; both are PEM, an encrypted key needs its "
            "ssl_key_password"
        )
        raise ValueError(f"ssl_key_file {key}: {says}") from error


def _require_authorities(name: str, file: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError as error:
        raise ValueError(f"{name} {file}: holds no certificate as PEM") from error
