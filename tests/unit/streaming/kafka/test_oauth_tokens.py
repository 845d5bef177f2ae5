"""OAuth tokens for kafka-python, from an identity provider."""

from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from streaming.kafka.oauth_tokens import ClientCredentials
from streaming.settings.connection import KafkaSettings
from tests.support.identity_provider import SCOPE, IdentityProvider, identity_provider
from tests.support.pem import certificate, signed_certificate


def test_oauth_token_is_fetched_over_verified_tls(tmp_path: Path) -> None:
    authority, other_authority = certificate(tmp_path, "authority"), certificate(tmp_path, "other")
    served = signed_certificate(tmp_path, "endpoint")
    keystore = tmp_path / "keystore.pem"
    keystore.write_text(served.with_suffix(".key").read_text() + served.read_text())
    phrase = "s:e c/ret+%"
    with identity_provider(IdentityProvider({"monitor": phrase}), keystore) as provider:
        settings = KafkaSettings.model_validate(
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": provider.url,
                "sasl_oauthbearer_client_id": "monitor",
                "sasl_oauthbearer_client_secret": phrase,
                "sasl_oauthbearer_scope": SCOPE,
                "sasl_oauthbearer_extensions": "a=b,c=d",
                "sasl_oauthbearer_ca_file": authority,
            }
        )
        tokens = ClientCredentials(settings)
        assert tokens.token().count(".") == 2
        assert provider.issued_tokens == {"monitor": 1}
        assert tokens.extensions() == {"a": "b", "c": "d"}
        provider.secrets["monitor"] = "changed"
        with pytest.raises(HTTPError, match="401"):
            tokens.token()
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ClientCredentials(settings.model_copy(update={"sasl_oauthbearer_ca_file": other_authority})).token()
