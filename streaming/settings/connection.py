"""``[kafka]``: the cluster's address, and the credentials that all components of the monitor use."""

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import SecretStr, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from streaming.settings.section import Section, is_valid_text


def read_secret(secret: SecretStr | None, name: str, file: Path | None) -> str:
    """Return the secret from its setting, or from the file in the setting ``name``; empty if both are unset."""
    if secret is not None:
        return secret.get_secret_value()
    if file is None:
        return ""
    text = file.read_bytes().decode(errors="surrogateescape").strip()
    if not is_valid_text(text):
        raise ValueError(f"{name} {file}: is not UTF-8 text")
    if len(text.splitlines()) > 1:  # Java's clients take PEM on one line.
        raise ValueError(f"{name} {file}: contains more than one line")
    return text


def read_pem(file: Path) -> str:
    """Return a PEM file as text; text outside its blocks may have any encoding."""
    return file.read_bytes().decode("ascii", errors="replace")


def require_pem(files: Mapping[str, Path], key_password: str) -> None:
    """Check PEM files of certificates and keys; librdkafka would report only OpenSSL's error numbers."""
    for name in {"ssl_ca_file", "sasl_oauthbearer_ca_file"} & files.keys():
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files[name])
        except ssl.SSLError as error:
            raise ValueError(f"{name} {files[name]}: contains no PEM certificate") from error
    if "ssl_certificate_file" not in files or "ssl_key_file" not in files:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate, key = files["ssl_certificate_file"], files["ssl_key_file"]
    try:
        # Without a password, OpenSSL would prompt for one on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: key_password)
    except ssl.SSLError as error:
        problem = "can't be opened with ssl_certificate_file; both are PEM, an encrypted key needs its ssl_key_password"
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = "is not the key of ssl_certificate_file"
        raise ValueError(f"ssl_key_file {key}: {problem}") from error


SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]

#: `host:port`, with an IPv6 address in brackets; Java's clients require the port.
_ADDRESS: Final = re.compile(r"(?:\w+://)?(?:[\w.-]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})")
#: A SASL extension's name (RFC 7628), and a value without the characters that separate values in client properties.
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[^,=\s]+")
_OAUTH_PREFIX: Final = "sasl_oauthbearer_"
#: By mechanism: the prefix of the settings that only this mechanism has, and the settings that it requires.
_MECHANISM_SETTINGS: Final = {
    "OAUTHBEARER": (_OAUTH_PREFIX, (f"{_OAUTH_PREFIX}token_endpoint_url", f"{_OAUTH_PREFIX}client_id")),
    "AWS_MSK_IAM": ("sasl_aws_", ("sasl_aws_region",)),
    "GSSAPI": ("sasl_kerberos_", ("sasl_kerberos_principal",)),
}
_USER_SETTINGS: Final = (("sasl_username", "sasl_password"), ("sasl_username",))


class KafkaSettings(Section):
    """Connection of every component to the cluster (``[kafka]``).

    Secrets are set by their value, preferably from the environment, or by the path of a file with only the secret.
    """

    bootstrap_servers: str = "127.0.0.1:9092"
    #: Name of the cluster on the page and in the API; by default the cluster's id.
    cluster_name: str = ""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    #: OAUTHBEARER: token endpoint and client, for the client credentials grant (RFC 6749, 4.4).
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_id: str | None = None
    sasl_oauthbearer_client_secret: SecretStr | None = None
    sasl_oauthbearer_client_secret_file: Path | None = None
    sasl_oauthbearer_scope: str | None = None
    #: ``name=value`` pairs, separated by commas, that are sent to the broker with the token (RFC 7628, 3.1).
    sasl_oauthbearer_extensions: str | None = None
    #: PEM file of trusted certificate authorities for the token endpoint; by default those of the system.
    sasl_oauthbearer_ca_file: Path | None = None
    #: AWS_MSK_IAM: region of the cluster; credentials are searched for as AWS's own tools do.
    sasl_aws_region: str | None = None
    #: GSSAPI (Kerberos): principal and keytab; without a keytab the ticket cache is used.
    sasl_kerberos_principal: str | None = None
    sasl_kerberos_keytab_file: Path | None = None
    sasl_kerberos_service_name: str | None = None
    #: PEM file of trusted certificate authorities for the brokers; by default those of the system.
    ssl_ca_file: Path | None = None
    #: PEM files of this client's certificate and of its PKCS#8 key, encrypted or not, for mutual TLS.
    ssl_certificate_file: Path | None = None
    ssl_key_file: Path | None = None
    ssl_key_password: SecretStr | None = None
    #: True if a broker's certificate must contain the broker's host name.
    ssl_check_hostname: bool = True

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_servers(cls, servers: str) -> str:
        for server in servers.split(","):
            match = _ADDRESS.fullmatch(server.strip())
            if match is None or not 0 < int(match[1]) < 2**16:
                raise ValueError(f"{server.strip()!r}: must be host:port, several addresses separated by commas")
        return servers

    @field_validator("sasl_oauthbearer_token_endpoint_url")
    @classmethod
    def _check_endpoint_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)  # This raises ValueError for some addresses.
        if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isprintable() or " " in url:
            raise ValueError("write the address of the token endpoint, https://host/path")
        if parts.username is not None or parts.password is not None:
            raise ValueError("contains a user name or password; set them in sasl_oauthbearer_client_id and …_secret")
        return url

    @field_validator("sasl_oauthbearer_extensions")
    @classmethod
    def _check_extensions(cls, extensions: str | None) -> str | None:
        for pair in extensions.split(",") if extensions is not None else ():
            if _EXTENSION.fullmatch(pair) is None:
                raise ValueError(f"{pair!r}: must be name=value, several pairs separated by commas")
        return extensions

    @property
    def uses_sasl(self) -> bool:
        """True if the connection uses SASL authentication."""
        return self.security_protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """True if connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_oauth(self) -> bool:
        """True if the connection authenticates by tokens of an identity provider."""
        return self.sasl_mechanism == "OAUTHBEARER"

    @property
    def kerberos_service(self) -> str:
        """Return the Kerberos service name of the brokers."""
        return self.sasl_kerberos_service_name or "kafka"

    @property
    def password(self) -> str:
        """Return the SASL password from its setting or its file; empty if both are unset."""
        return read_secret(self.sasl_password, "sasl_password_file", self.sasl_password_file)

    @property
    def client_secret(self) -> str:
        """Return the OAuth client secret, from the setting of the secret or of its file; empty if both are unset."""
        file = self.sasl_oauthbearer_client_secret_file
        return read_secret(self.sasl_oauthbearer_client_secret, f"{_OAUTH_PREFIX}client_secret_file", file)

    @property
    def files(self) -> dict[str, Path]:
        """Return the path of each file that these settings name, as ``{setting: path}``."""
        paths = ((name, getattr(self, name)) for name in type(self).model_fields if name.endswith("_file"))
        return {name: path for name, path in paths if path is not None}

    @model_validator(mode="after")
    def _check_security_settings(self) -> Self:
        if not self.uses_sasl:
            self._refuse_unused("sasl_", f"security_protocol {self.security_protocol}; set it to SASL_SSL")
        elif self.sasl_mechanism is None:
            raise ValueError(f"sasl_mechanism is missing: security_protocol {self.security_protocol} needs it")
        else:
            self._check_mechanism(self.sasl_mechanism)
        if not self.uses_tls:
            self._refuse_unused("ssl_", f"security_protocol {self.security_protocol}; set it to SSL or SASL_SSL")
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            raise ValueError("ssl_certificate_file and ssl_key_file must both be set, or neither")
        self.require_files()
        return self

    def _check_mechanism(self, mechanism: str) -> None:
        own, needed_settings = _MECHANISM_SETTINGS.get(mechanism, _USER_SETTINGS)
        for name in needed_settings:
            if not getattr(self, name):
                raise ValueError(f"{name} is missing: sasl_mechanism {mechanism} needs it")
        if self.uses_oauth:
            self._require_exactly_one(f"{_OAUTH_PREFIX}client_secret", f"{_OAUTH_PREFIX}client_secret_file")
        elif mechanism not in _MECHANISM_SETTINGS:
            self._require_exactly_one("sasl_password", "sasl_password_file")
        others = {name for name in type(self).model_fields if name.startswith("sasl_") and not name.startswith(own)}
        for name in sorted(others - {"sasl_mechanism"}):
            self._refuse_unused(name, f"sasl_mechanism {mechanism}")

    def _require_exactly_one(self, secret: str, file: str) -> None:
        value: SecretStr | None = getattr(self, secret)
        if (value is None) == (getattr(self, file) is None):
            raise ValueError(f"set either {secret} or {file}")
        if value is not None and not value.get_secret_value():
            raise ValueError(f"{secret} is empty")

    def _refuse_unused(self, prefix: str, condition: str) -> None:
        for name in sorted(self.model_fields_set):
            if name.startswith(prefix) and getattr(self, name) is not None:
                raise ValueError(f"{name} has no effect under {condition}")

    def require_files(self) -> None:
        """Check that all files in the settings can be read and used."""
        for name, path in self.files.items():
            try:
                path.read_bytes()
            except OSError as error:
                raise ValueError(f"{name} {path}: {error.strerror}") from error
        secrets = {"sasl_password_file": self.password, f"{_OAUTH_PREFIX}client_secret_file": self.client_secret}
        for name, secret in secrets.items():
            if name in self.files and not secret:
                raise ValueError(f"{name} {self.files[name]}: is empty")
        require_pem(self.files, self.ssl_key_password.get_secret_value() if self.ssl_key_password is not None else "")

    @model_serializer(mode="wrap")
    def _effective_settings(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the settings as a dict; TLS settings are left out without TLS, as the next load would refuse them."""
        values: dict[str, Any] = serialize(self)
        return {name: value for name, value in values.items() if self.uses_tls or not name.startswith("ssl_")}
