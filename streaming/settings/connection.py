"""``[kafka]``: the cluster's address and this program's credentials, the same for every component."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import SecretStr, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from streaming.settings.section import Section, is_text


def secret_in(secret: SecretStr | None, name: str, file: Path | None) -> str:
    """Return the secret from its setting, or from the file that the setting ``name`` names; empty without either."""
    if secret is not None:
        return secret.get_secret_value()
    if file is None:
        return ""
    text = file.read_bytes().decode(errors="surrogateescape").strip()
    if not is_text(text):
        raise ValueError(f"{name} {file}: is not UTF-8 text")
    if len(text.splitlines()) > 1:  # Java's clients take it on one line
        raise ValueError(f"{name} {file}: holds more than one line")
    return text


def pem_in(file: Path) -> str:
    """Return a PEM file as text; around its blocks there may be any encoding."""
    return file.read_bytes().decode("ascii", errors="replace")


def require_pem(files: Mapping[str, Path], key_password: str) -> None:
    """Check certificates and keys, for which librdkafka would only report OpenSSL's numbers."""
    for name in {"ssl_ca_file", "sasl_oauthbearer_ca_file"} & files.keys():
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files[name])
        except ssl.SSLError as error:
            raise ValueError(f"{name} {files[name]}: holds no certificate as PEM") from error
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
            else "can't be opened with ssl_certificate_file; both are PEM, an encrypted key needs its ssl_key_password"
        )
        raise ValueError(f"ssl_key_file {key}: {says}") from error


SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]

#: `host:port`, an IPv6 address in brackets; Java's clients take no address without its port.
_ADDRESS: Final = re.compile(r"(?:\w+://)?(?:[\w.-]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})")
#: A name as RFC 7628 has it; a value without what would end it in one of the clients' own notations.
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[^,=\s]+")
_OAUTH: Final = "sasl_oauthbearer_"
#: Prefix of each mechanism's own settings, and those that it needs.
_OWN: Final = {
    "OAUTHBEARER": (_OAUTH, (f"{_OAUTH}token_endpoint_url", f"{_OAUTH}client_id")),
    "AWS_MSK_IAM": ("sasl_aws_", ("sasl_aws_region",)),
    "GSSAPI": ("sasl_kerberos_", ("sasl_kerberos_principal",)),
}
_BY_USER: Final = (("sasl_username", "sasl_password"), ("sasl_username",))


class KafkaSettings(Section):
    """Connection of every component to the cluster (``[kafka]``).

    Secrets are given as they are, preferably from the environment, or as a file that holds nothing else.
    """

    bootstrap_servers: str = "127.0.0.1:9092"
    #: Name of the cluster on the page and in the API; its id when left out.
    cluster_name: str = ""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: Mechanism | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    #: OAUTHBEARER: token endpoint and client, for the client credentials grant (RFC 6749, 4.4).
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_id: str | None = None
    sasl_oauthbearer_client_secret: SecretStr | None = None
    sasl_oauthbearer_client_secret_file: Path | None = None
    sasl_oauthbearer_scope: str | None = None
    #: ``name=value`` pairs that go to the broker with the token (RFC 7628, 3.1), with commas between.
    sasl_oauthbearer_extensions: str | None = None
    #: PEM: the authorities of the token endpoint; the system's when left out.
    sasl_oauthbearer_ca_file: Path | None = None
    #: AWS_MSK_IAM: the cluster's region; credentials are found as AWS's own tools find them.
    sasl_aws_region: str | None = None
    #: GSSAPI (Kerberos): without a keytab the ticket cache is used.
    sasl_kerberos_principal: str | None = None
    sasl_kerberos_keytab_file: Path | None = None
    sasl_kerberos_service_name: str | None = None
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

    @field_validator("sasl_oauthbearer_token_endpoint_url")
    @classmethod
    def _is_an_endpoint(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)  # raises a ValueError of its own for some
        if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isprintable() or " " in url:
            raise ValueError("write the address of the token endpoint, https://host/path")
        if parts.username is not None or parts.password is not None:
            raise ValueError("holds a name or password; they belong in sasl_oauthbearer_client_id and …_secret")
        return url

    @field_validator("sasl_oauthbearer_extensions")
    @classmethod
    def _are_extensions(cls, extensions: str | None) -> str | None:
        for pair in extensions.split(",") if extensions is not None else ():
            if _EXTENSION.fullmatch(pair) is None:
                raise ValueError(f"{pair!r}: write name=value, several with commas between")
        return extensions

    @property
    def uses_sasl(self) -> bool:
        """True if this program authenticates by SASL."""
        return self.security_protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """True if connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_oauth(self) -> bool:
        """True if it authenticates by tokens of an identity provider."""
        return self.sasl_mechanism == "OAUTHBEARER"

    @property
    def kerberos_service(self) -> str:
        """Return the brokers' service name in Kerberos."""
        return self.sasl_kerberos_service_name or "kafka"

    @property
    def password(self) -> str:
        """Return the SASL password from its setting or its file; empty without one."""
        return secret_in(self.sasl_password, "sasl_password_file", self.sasl_password_file)

    @property
    def client_secret(self) -> str:
        """Return the secret for token requests from its setting or its file; empty without one."""
        file = self.sasl_oauthbearer_client_secret_file
        return secret_in(self.sasl_oauthbearer_client_secret, f"{_OAUTH}client_secret_file", file)

    @property
    def files(self) -> dict[str, Path]:
        """Return ``{setting: file}`` of the files that are set."""
        paths = ((name, getattr(self, name)) for name in type(self).model_fields if name.endswith("_file"))
        return {name: path for name, path in paths if path is not None}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.uses_sasl:
            self._refuse("sasl_", f"security_protocol {self.security_protocol}; set it to SASL_SSL")
        elif self.sasl_mechanism is None:
            raise ValueError(f"sasl_mechanism is missing: security_protocol {self.security_protocol} needs it")
        else:
            self._check_mechanism(self.sasl_mechanism)
        if not self.uses_tls:
            self._refuse("ssl_", f"security_protocol {self.security_protocol}; set it to SSL or SASL_SSL")
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            raise ValueError("ssl_certificate_file and ssl_key_file are given together")
        self.require_files()
        return self

    def _check_mechanism(self, mechanism: str) -> None:
        own, needed = _OWN.get(mechanism, _BY_USER)
        for name in needed:
            if not getattr(self, name):
                raise ValueError(f"{name} is missing: sasl_mechanism {mechanism} needs it")
        if self.uses_oauth:
            self._need_one(f"{_OAUTH}client_secret", f"{_OAUTH}client_secret_file")
        elif mechanism not in _OWN:
            self._need_one("sasl_password", "sasl_password_file")
        others = {name for name in type(self).model_fields if name.startswith("sasl_") and not name.startswith(own)}
        for name in sorted(others - {"sasl_mechanism"}):
            self._refuse(name, f"sasl_mechanism {mechanism}")

    def _need_one(self, secret: str, file: str) -> None:
        value: SecretStr | None = getattr(self, secret)
        if (value is None) == (getattr(self, file) is None):
            raise ValueError(f"give one of {secret} and {file}")
        if value is not None and not value.get_secret_value():
            raise ValueError(f"{secret} is empty")

    def _refuse(self, prefix: str, under: str) -> None:
        for name in sorted(self.model_fields_set):
            if name.startswith(prefix) and getattr(self, name) is not None:
                raise ValueError(f"{name} has no effect under {under}")

    def require_files(self) -> None:
        """Check that the files can be read and used."""
        for name, path in self.files.items():
            try:
                path.read_bytes()
            except OSError as error:
                raise ValueError(f"{name} {path}: {error.strerror}") from error
            except ValueError as error:  # a null in the path
                raise ValueError(f"{name} {str(path)!r}: {error}") from error
        for name, secret in (
            ("sasl_password_file", self.password),
            (f"{_OAUTH}client_secret_file", self.client_secret),
        ):
            if name in self.files and not secret:
                raise ValueError(f"{name} {self.files[name]}: is empty")
        password = self.ssl_key_password.get_secret_value() if self.ssl_key_password is not None else ""
        require_pem(self.files, password)

    @model_serializer(mode="wrap")
    def _in_force(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the settings that have an effect: others would be refused when they are read again."""
        values: dict[str, Any] = serialize(self)
        return {name: value for name, value in values.items() if self.uses_tls or not name.startswith("ssl_")}
