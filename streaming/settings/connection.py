"""``[kafka]``: where the cluster is and how this program proves who it is. The same for every component."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator, model_validator

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

#: `host:port`, an IPv6 address in brackets; Java's clients take no address without its port.
_ADDRESS: Final = re.compile(r"(?:\w+://)?(?:[\w.-]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})")


class KafkaSettings(BaseModel):
    """How every component reaches the cluster (``[kafka]``).

    Passwords are given as they are, preferably from the environment, or as a file that holds nothing else.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    bootstrap_servers: str = "127.0.0.1:9092"
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: Mechanism | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    #: PEM: the authorities to trust; the system's when left out.
    ssl_ca_file: Path | None = None
    #: PEM: this client's certificate and unencrypted or encrypted PKCS#8 key, for mutual TLS.
    ssl_certificate_file: Path | None = None
    ssl_key_file: Path | None = None
    ssl_key_password: SecretStr | None = None
    #: Whether the certificate must name the broker's host.
    ssl_check_hostname: bool = True

    @field_validator("bootstrap_servers")
    @classmethod
    def _are_addresses(cls, servers: str) -> str:
        for server in servers.split(","):
            match = _ADDRESS.fullmatch(server.strip())
            if match is None or not 0 < int(match[1]) < 2**16:
                raise ValueError(f"{server.strip()!r}: write host:port, several with commas between")
        return servers

    @property
    def uses_sasl(self) -> bool:
        """Whether this program names itself to the broker."""
        return self.security_protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def password(self) -> str:
        """The SASL password, from its setting or its file; empty when there is none."""
        if self.sasl_password is not None:
            return self.sasl_password.get_secret_value()
        return self.sasl_password_file.read_text().strip() if self.sasl_password_file is not None else ""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """What one setting asks of the others, each refusal naming what to set."""
        for name in ("sasl_mechanism", "sasl_username"):
            if self.uses_sasl and getattr(self, name) is None:
                raise ValueError(f"{name} is missing: security_protocol {self.security_protocol} needs it")
        if self.uses_sasl and (self.sasl_password is None) == (self.sasl_password_file is None):
            raise ValueError("give one of sasl_password and sasl_password_file")
        if not self.uses_sasl:
            self._refuse("sasl_", "SASL_SSL")
        if not self.uses_tls:
            self._refuse("ssl_", "SSL or SASL_SSL")
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            raise ValueError("ssl_certificate_file and ssl_key_file are given together")
        self._readable()
        return self

    def _refuse(self, prefix: str, needed: str) -> None:
        for name in sorted(self.model_fields_set):
            if name.startswith(prefix) and getattr(self, name) is not None:
                raise ValueError(
                    f"{name} has no effect under security_protocol {self.security_protocol}; set it to {needed}"
                )

    def _readable(self) -> None:
        for name in ("sasl_password_file", "ssl_ca_file", "ssl_certificate_file", "ssl_key_file"):
            path: Path | None = getattr(self, name)
            if path is None:
                continue
            try:
                path.read_bytes()
            except OSError as error:
                raise ValueError(f"{name} {path}: {error.strerror}") from error
        if self.sasl_password_file is not None and not self.password:
            raise ValueError(f"sasl_password_file {self.sasl_password_file}: is empty")
        self._usable()

    def _usable(self) -> None:
        """What librdkafka would say of the files with OpenSSL's numbers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ssl_ca_file is not None:
            try:
                context.load_verify_locations(self.ssl_ca_file)
            except ssl.SSLError as error:
                raise ValueError(f"ssl_ca_file {self.ssl_ca_file}: holds no certificate as PEM") from error
        if self.ssl_certificate_file is None or self.ssl_key_file is None:
            return
        password = self.ssl_key_password.get_secret_value() if self.ssl_key_password is not None else ""
        try:
            # A password is always given: without one OpenSSL asks for it on the terminal.
            context.load_cert_chain(self.ssl_certificate_file, self.ssl_key_file, password=lambda: password)
        except ssl.SSLError as error:
            says = (
                "is not the key of ssl_certificate_file"
                if error.reason == "KEY_VALUES_MISMATCH"
                else "can't be opened with ssl_certificate_file; both are PEM, an encrypted key needs its "
                "ssl_key_password"
            )
            raise ValueError(f"ssl_key_file {self.ssl_key_file}: {says}") from error
