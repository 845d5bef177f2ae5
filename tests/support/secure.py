"""A broker with a SASL_SSL listener, made-up users and authorities, and ACLs that are enforced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.runtime import free_ports
from streaming.settings.connection import KafkaSettings
from tests.support.pem import certificate, openssl

PASSWORDS = {"monitor": 'correct horse "battery" staple', "stranger": "also-a-password"}


@dataclass(frozen=True)
class Secure:
    """Where it listens, in the clear for the superuser and secured for the others."""

    clear: str
    secured: str
    authority: Path
    other_authority: Path

    def settings(self, user: str = "monitor", **changes: object) -> KafkaSettings:
        return KafkaSettings.model_validate(self.values(user) | changes)

    def values(self, user: str = "monitor") -> dict[str, object]:
        return {
            "bootstrap_servers": self.secured,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": user,
            "sasl_password": PASSWORDS[user],
            "ssl_ca_file": str(self.authority),
        }


class _Broker(EmbeddedBroker):
    """Ports known before it starts: they stand in its listeners."""

    fixed: tuple[int, int] = (0, 0)

    def _choose_ports(self) -> tuple[int, int]:
        return self.fixed


def keystore(folder: Path, signer: str) -> Path:
    """Key and certificate of 127.0.0.1 in one PEM file."""
    (folder / "san.cnf").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    request = ("-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker", "-keyout", str(folder / "broker.key"))
    openssl("req", *request, "-out", str(folder / "broker.csr"))
    openssl(
        *("x509", "-req", "-days", "2"),
        *("-in", str(folder / "broker.csr"), "-out", str(folder / "broker.pem")),
        *("-CA", str(folder / f"{signer}.pem"), "-CAkey", str(folder / f"{signer}.key"), "-CAcreateserial"),
        *("-extfile", str(folder / "san.cnf")),
    )
    both = folder / "keystore.pem"
    both.write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    return both


@contextmanager
def secure_broker(folder: Path) -> Iterator[Secure]:
    trusted, other = certificate(folder, "authority"), certificate(folder, "other")
    clear, controller, secured = free_ports(3)
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{clear},CONTROLLER://127.0.0.1:{controller},SECURE://127.0.0.1:{secured}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{clear},SECURE://127.0.0.1:{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(keystore(folder, "authority")),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    broker = _Broker(properties=properties)
    broker.fixed = (clear, controller)
    with broker:
        found = Secure(broker.bootstrap_servers, f"127.0.0.1:{secured}", trusted, other)
        _users(found.clear)
        yield found


def _users(bootstrap_servers: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    upsertions = [
        UserScramCredentialUpsertion(user, info, password.encode()) for user, password in PASSWORDS.items()
    ]
    for future in admin.alter_user_scram_credentials(upsertions).values():
        future.result(20)


def allow(secure: Secure, user: str, *grants: tuple[str, str]) -> None:
    """Grant ``(operation, topic prefix)`` to a user, as the superuser."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": secure.clear})
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for operation, prefix in grants
    ]
    for future in admin.create_acls(bindings).values():
        future.result(20)
