"""Requests OAUTHBEARER tokens: from a token endpoint (RFC 6749, 4.4) for kafka-python, and AWS tokens for all clients.

From a token endpoint librdkafka requests its tokens itself; the Java clients request all their tokens themselves.
"""

import base64
import json
import ssl
from typing import Final
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from kafka.net.sasl.oauth import AbstractTokenProvider

from assignors.errors import OutsideFailure
from streaming.settings.connection import KafkaSettings

_TIMEOUT_SECONDS: Final = 5.0


class ClientCredentials(AbstractTokenProvider):
    """Requests a token by the client credentials grant for each new connection."""

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__()
        self._settings = settings

    def token(self) -> str:
        """Return a new token; raise OSError if the endpoint does not answer, or refuses the client."""
        settings = self._settings
        credentials = f"{quote(settings.sasl_oauthbearer_client_id or '')}:{quote(settings.client_secret)}"
        scope = settings.sasl_oauthbearer_scope
        fields = {"grant_type": "client_credentials"} | ({} if scope is None else {"scope": scope})
        request = Request(  # noqa: S310 - the settings allow http and https only
            settings.sasl_oauthbearer_token_endpoint_url or "",
            data=urlencode(fields).encode(),
            headers={"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"},
        )
        tls_context = ssl.create_default_context(cafile=settings.sasl_oauthbearer_ca_file)
        with urlopen(request, timeout=_TIMEOUT_SECONDS, context=tls_context) as answer:  # noqa: S310 - see above
            return str(json.load(answer)["access_token"])

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions that are sent to the broker with the token (RFC 7628, 3.1)."""
        pairs = (self._settings.sasl_oauthbearer_extensions or "").split(",")
        return dict(pair.split("=", 1) for pair in pairs if pair)


def aws_token(region: str) -> tuple[str, float]:
    """Return a token for Amazon MSK, and the time of its expiry in seconds since the epoch."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        command = "pip install 'kafka-rebalance-monitor[aws]'"
        raise OutsideFailure(f"kafka.sasl_mechanism AWS_MSK_IAM needs the extra `aws`: {command}") from error
    try:
        token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except (BotoCoreError, ValueError, AttributeError) as error:  # AttributeError: no credentials
        raise OutsideFailure(
            f"kafka.sasl_mechanism AWS_MSK_IAM: no AWS credentials; give it a role, or set AWS_PROFILE ({error})"
        ) from error
    return token, expires_ms / 1000


class AwsToken(AbstractTokenProvider):
    """Signs an AWS token for each new connection."""

    def __init__(self, region: str) -> None:
        super().__init__()
        self._region = region

    def token(self) -> str:
        """Return a new AWS token."""
        return aws_token(self._region)[0]
