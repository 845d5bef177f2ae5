"""A broker with enforced ACLs, a listener for each mechanism, test users and certificate authorities."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streaming.kafka.access import Permission
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.runtime import free_ports
from streaming.settings.connection import KafkaSettings
from tests.support.identity_provider import ISSUER, SCOPE, TOKEN_AUDIENCE, IdentityProvider, identity_provider
from tests.support.pem import certificate, signed_certificate
from tests.support.wait import TIMEOUT_SECONDS

_OPERATIONS = {"DescribeConfigs": "DESCRIBE_CONFIGS"}
_SECURITY = "org.apache.kafka.common.security"
#: SCRAM users; OAuth clients and certificate owners have the same names and secrets.
USER_PASSWORDS = {
    "monitor": 'correct horse "battery" staple',
    "stranger": "also-a-password",
    **{component: f"secret-of-{component}" for component in ("collect", "stream", "serve")},
}
_LISTENERS = {"SCRAM": "SCRAM-SHA-512", "OAUTH": "OAUTHBEARER", "MUTUAL": "certificate"}
MECHANISMS = tuple(_LISTENERS.values())


@dataclass(frozen=True)
class SecuredBroker:
    """The broker's addresses: ``plaintext_address`` for the superuser, ``listeners`` by mechanism for all users."""

    plaintext_address: str
    listeners: dict[str, str]
    folder: Path
    provider: IdentityProvider

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def other_authority(self) -> Path:
        return self.folder / "other.pem"

    def settings(self, user: str = "monitor", **changes: object) -> KafkaSettings:
        return KafkaSettings.model_validate(self.values(user) | changes)

    def values(self, user: str = "monitor", mechanism: str = "SCRAM-SHA-512") -> dict[str, object]:
        """Return settings that authenticate as the user with this mechanism."""
        common = {"bootstrap_servers": self.listeners[mechanism], "ssl_ca_file": str(self.authority)}
        if mechanism == "certificate":
            pem = self.certificate(user)
            return common | {
                "security_protocol": "SSL",
                "ssl_certificate_file": str(pem),
                "ssl_key_file": str(pem.with_suffix(".key")),
            }
        common |= {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism}
        if mechanism == "OAUTHBEARER":
            return common | {
                "sasl_oauthbearer_token_endpoint_url": self.provider.url,
                "sasl_oauthbearer_client_id": user,
                "sasl_oauthbearer_client_secret": self.provider.secrets[user],
                "sasl_oauthbearer_scope": SCOPE,
                "sasl_oauthbearer_extensions": "logicalCluster=lkc-1",
                "sasl_oauthbearer_ca_file": str(self.authority),
            }
        return common | {"sasl_username": user, "sasl_password": USER_PASSWORDS[user]}

    def certificate(self, user: str) -> Path:
        """Return the path of the user's certificate, created on first use together with the user's key."""
        pem = self.folder / f"{user}.pem"
        return pem if pem.exists() else signed_certificate(self.folder, user)

    def principal(self, user: str, mechanism: str = "SCRAM-SHA-512") -> str:
        return f"User:CN={user}" if mechanism == "certificate" else f"User:{user}"


class _Broker(EmbeddedBroker):
    """A broker with fixed ports, because the properties of its listeners contain the ports."""

    fixed_ports: tuple[int, int] = (0, 0)

    def _choose_ports(self) -> tuple[int, int]:
        return self.fixed_ports


@contextmanager
def secure_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Run the broker and the identity provider; their certificates are stored in ``folder``."""
    certificate(folder, "authority")
    certificate(folder, "other")
    broker_pem = signed_certificate(folder, "broker")
    keystore = folder / "keystore.pem"
    keystore.write_text(broker_pem.with_suffix(".key").read_text() + broker_pem.read_text())
    with identity_provider(IdentityProvider(dict(USER_PASSWORDS)), keystore) as provider:
        plaintext_address, controller, *ports = free_ports(5)
        keys = provider.write_keys(folder / "jwks.json").as_uri()
        with _broker(
            folder, (plaintext_address, controller), dict(zip(MECHANISMS, ports, strict=True)), keys
        ) as broker:
            listeners = {name: f"127.0.0.1:{port}" for name, port in zip(MECHANISMS, ports, strict=True)}
            secured_broker = SecuredBroker(broker.bootstrap_servers, listeners, folder, provider)
            set_passwords(secured_broker.plaintext_address, USER_PASSWORDS)
            yield secured_broker


def _broker(folder: Path, fixed_ports: tuple[int, int], ports: dict[str, int], keys: str) -> EmbeddedBroker:
    scram_servers, oauth_servers, mutual_tls_servers = (
        f"{name}://127.0.0.1:{ports[mechanism]}" for name, mechanism in _LISTENERS.items()
    )
    plaintext_address = f"PLAINTEXT://127.0.0.1:{fixed_ports[0]}"
    properties = {
        "listeners": f"{plaintext_address},CONTROLLER://127.0.0.1:{fixed_ports[1]},{scram_servers},{oauth_servers},{mutual_tls_servers}",
        "advertised.listeners": f"{plaintext_address},{scram_servers},{oauth_servers},{mutual_tls_servers}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_SSL,OAUTH:SASL_SSL,MUTUAL:SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": (
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": TOKEN_AUDIENCE,
        "listener.name.mutual.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    # Since Kafka 4.0 keys are only read from locations that this setting names.
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    broker = _Broker(properties=properties, jvm_options=[allowed])
    broker.fixed_ports = fixed_ports
    return broker


def set_passwords(bootstrap_servers: str, passwords: Mapping[str, str]) -> None:
    """Set these SCRAM users' passwords; open connections keep working with the old ones."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    changes = [UserScramCredentialUpsertion(user, info, password.encode()) for user, password in passwords.items()]
    for future in admin.alter_user_scram_credentials(changes).values():
        future.result(TIMEOUT_SECONDS)


def allow_operations(secured_broker: SecuredBroker, principal: str, *permissions: Permission) -> None:
    """Grant permissions as the superuser."""
    admin = AdminClient(
        {"bootstrap.servers": secured_broker.plaintext_address}
    )  # keep it: responses only arrive while it exists
    for future in admin.create_acls([_acl_binding(principal, permission) for permission in permissions]).values():
        future.result(TIMEOUT_SECONDS)


def disallow(secured_broker: SecuredBroker, principal: str, permission: Permission) -> None:
    """Revoke a permission as the superuser."""
    admin = AdminClient({"bootstrap.servers": secured_broker.plaintext_address})
    for future in admin.delete_acls([_acl_binding(principal, permission, AclBindingFilter)]).values():
        assert len(future.result(TIMEOUT_SECONDS)) == 1


def _acl_binding(principal: str, permission: Permission, kind: type[AclBinding] = AclBinding) -> AclBinding:
    return kind(
        ResourceType[permission.resource.replace("-", "_").upper()],
        permission.name,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation[_OPERATIONS.get(permission.operation, permission.operation.upper())],
        AclPermissionType.ALLOW,
    )
