import pytest

from streaming.kafka.security import explain, no_answer_message
from streaming.settings.connection import KafkaSettings

BROKER = {"bootstrap_servers": "kafka:9093", "security_protocol": "SASL_SSL"}
PASSWORD = {"sasl_mechanism": "PLAIN", "sasl_username": "monitor", "sasl_password": "s3cret-s3cret"}
SETTINGS = KafkaSettings.model_validate(BROKER | PASSWORD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            (
                "sasl_ssl://b1:9093/bootstrap: SASL authentication error: Authentication failed during "
                "authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512 (after 318ms)"
            ),
            "broker b1:9093: refuses user 'monitor' (PLAIN); check kafka.sasl_username and kafka.sasl_password",
        ),
        (
            (
                "sasl_ssl://b1:9093/1: SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: "
                "broker's supported mechanisms: SCRAM-SHA-512 (after 301ms in state AUTH_HANDSHAKE)"
            ),
            "does not offer kafka.sasl_mechanism PLAIN; set one it offers (SCRAM-SHA-512)",
        ),
        (
            (
                "sasl_ssl://b1:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate "
                "verify failed: broker certificate could not be verified, verify that ssl.ca.location is correct"
            ),
            "its certificate is not signed by the system's authorities; set kafka.ssl_ca_file",
        ),
        (
            (
                "ssl://b1:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify "
                "failed: broker certificate could not be verified: Hostname mismatch"
            ),
            "does not name this host",
        ),
        (
            (
                "ssl://b1:9093/bootstrap: SSL handshake failed: error:0A000412:SSL routines::sslv3 alert bad "
                "certificate: SSL alert number 42"
            ),
            "refuses this client's certificate; set kafka.ssl_certificate_file",
        ),
        (
            (
                "sasl_ssl://b1:9092/bootstrap: SSL handshake failed: Disconnected: connecting to a PLAINTEXT "
                "broker listener? (after 2ms in state SSL_HANDSHAKE)"
            ),
            "broker b1:9092: the listener is not encrypted",
        ),
    ],
)
def test_refusal_names_broker_and_setting(text: str, message: str) -> None:
    error = explain(text, SETTINGS)
    assert error is not None
    assert message in str(error)
    assert "s3cret" not in str(error)
    assert "\n" not in str(error)


def test_temporary_error_is_not_a_rejection() -> None:
    assert explain("kafka:9093/bootstrap: Connect to ipv4#10.0.0.1:9093 failed: Connection refused", SETTINGS) is None


OAUTH = KafkaSettings.model_validate(
    BROKER
    | {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": "https://id.example/token",
        "sasl_oauthbearer_client_id": "monitor",
        "sasl_oauthbearer_client_secret": "s3cret-s3cret",
    }
)
_SASL_FAILURE_TEXT = "Failed to acquire SASL OAUTHBEARER token: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _SASL_FAILURE_TEXT + '{"error": "invalid_client", "error_description": "s3cret-s3cret is wrong"}',
            "token endpoint https://id.example/token: refuses client 'monitor' (invalid_client); check kafka.sasl_",
        ),
        (
            _SASL_FAILURE_TEXT
            + "SSL peer certificate or SSH remote key was not OK: SSL certificate problem: unable to get issuer",
            "token endpoint https://id.example/token: its certificate is not signed by the system's author",
        ),
        (
            'sasl_ssl://b1:9093/bootstrap: SASL authentication error: {"status":"invalid_token"} ',
            'broker b1:9093: refuses the token of client \'monitor\' ({"status":"invalid_token"}); ask',
        ),
    ],
)
def test_identity_provider_refusal_is_explained_without_secrets(text: str, message: str) -> None:
    error = str(explain(text, OAUTH))
    assert message in error
    assert "s3cret" not in error


@pytest.mark.parametrize("text", ["Could not connect to server", '{"error": "temporarily_unavailable"}'])
def test_unavailable_identity_provider_is_awaited(text: str) -> None:
    assert explain(_SASL_FAILURE_TEXT + text, OAUTH) is None
    no_token_error = f"token endpoint https://id.example/token: gives no token within 8 s ({_SASL_FAILURE_TEXT}{text})"
    assert no_answer_message(_SASL_FAILURE_TEXT + text, OAUTH, 8.0) == no_token_error
    silent = f"bootstrap_servers kafka:9093: no broker answers within 8 s ({text}); check --bootstrap-servers"
    assert no_answer_message(text, OAUTH, 8.0) == silent
