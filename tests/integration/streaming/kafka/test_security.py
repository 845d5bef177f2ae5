"""Every component against a broker with SASL_SSL and ACLs: the component works, or reports a problem in one line."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streaming.collect.group_states import GroupStates
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import load
from streaming.settings.connection import KafkaSettings
from tests.support.command import run
from tests.support.kafka import eventually, unique_name
from tests.support.secure import MECHANISMS, USER_PASSWORDS, SecuredBroker, secure_broker

pytestmark = pytest.mark.broker

#: Time limit in seconds for the report of a problem, on a busy machine.
MAX_REPORT_SECONDS = 60.0

COMPONENTS = {
    "collect": [],
    "stream": ["--checkpoint", "{folder}/checkpoint"],
    "serve": ["--port", "0", "--database", "{folder}/history.sqlite"],
    "run": ["--checkpoint", "{folder}/checkpoint", "--port", "0"],
    "topics": ["--create"],
    "watch": ["--from-beginning", "--exit-at-end"],
    "groups": [],
    "replay": [],
}
#: Components of the case without a broker: a refused connection takes seconds, and all components share that code.
SLOW_COMMANDS = ("collect", "stream", "serve", "run")


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as secured_broker:
        yield secured_broker


@pytest.fixture
def prefix(secured_broker: SecuredBroker) -> str:
    """Return a topic prefix that belongs to this test and whose topics exist."""
    prefix = f"{unique_name('secure')}."
    ensure_topics(load(bootstrap_servers=secured_broker.plaintext_address, topic_prefix=prefix))
    return prefix


def run_component(
    name: str, values: dict[str, object], prefix: str, folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    arguments = [option.format(folder=folder) for option in (*COMPONENTS.get(name, []), *options)]
    scope = ["--topic-prefix", prefix] if name != "config" else []
    environment = {f"REBALANCE_MONITOR_KAFKA__{setting.upper()}": str(value) for setting, value in values.items()}
    return run(name, *arguments, *scope, environment=environment)


REFUSED_SETTINGS = {
    "wrong password": ({"sasl_password": "not-the-password"}, "refuses user 'monitor'", "kafka.sasl_password"),
    "untrusted certificate": ({"ssl_ca_file": "{other}"}, "is not signed by", "kafka.ssl_ca_file"),
    "unreachable": ({"bootstrap_servers": "127.0.0.1:1"}, "no broker answers", "bootstrap_servers 127.0.0.1:1"),
}
#: All components connect with the same function: each runs in one case, and each case with two of them.
COMPONENTS_BY_CASE = {
    "wrong password": ("collect", "stream", "topics", "watch"),
    "untrusted certificate": ("serve", "replay"),
    "unreachable": ("run", "stream"),
}


@pytest.mark.parametrize(
    ("case", "component"),
    [
        pytest.param(case, component, marks=[] if component in COMPONENTS_BY_CASE[case] else pytest.mark.full)
        for case in REFUSED_SETTINGS
        for component in COMPONENTS
        if case != "unreachable" or component in SLOW_COMMANDS
    ],
)
def test_connection_error_is_one_line_in_time_without_secret(
    secured_broker: SecuredBroker,
    tmp_path: Path,
    *,
    component: str,
    case: str,
    record_property: Callable[[str, object], None],
) -> None:
    changes, message, names = REFUSED_SETTINGS[case]
    values = secured_broker.values() | {
        key: text.format(other=secured_broker.other_authority) for key, text in changes.items()
    }
    begin = time.monotonic()
    answer = run_component(component, values, "none.", tmp_path)
    elapsed_seconds = time.monotonic() - begin
    record_property("seconds", round(elapsed_seconds, 1))
    assert elapsed_seconds < MAX_REPORT_SECONDS
    assert answer.returncode == 3
    lines = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert names in lines[0]
    output = answer.stderr + answer.stdout
    assert "Traceback" not in output
    assert not any(secret in output for secret in (*USER_PASSWORDS.values(), "not-the-password"))


@pytest.mark.parametrize(
    ("component", "operation"),
    [
        *((component, "Read") for component in ("collect", "stream", "serve", "watch", "groups", "replay")),
        *((component, "Create") for component in ("run", "topics")),
    ],
)
def test_a_missing_acl_is_named_with_the_command_that_grants_it(
    secured_broker: SecuredBroker,
    prefix: str,
    tmp_path: Path,
    *,
    component: str,
    operation: str,
    record_property: Callable[[str, object], None],
) -> None:
    _create_offsets_topic(secured_broker)
    begin = time.monotonic()
    answer = run_component(component, secured_broker.values("stranger"), prefix, tmp_path)
    elapsed_seconds = time.monotonic() - begin
    record_property("seconds", round(elapsed_seconds, 1))
    assert elapsed_seconds < MAX_REPORT_SECONDS
    assert answer.returncode == 3
    line = next(line for line in answer.stderr.splitlines() if line.startswith("error: "))
    assert f"user 'stranger' may not {operation.lower()} topic" in line
    assert f"--add --allow-principal 'User:stranger' --operation {operation} --topic" in line
    assert "Traceback" not in answer.stderr


def _create_offsets_topic(secured_broker: SecuredBroker) -> None:
    """Create the offsets topic by a first group; retry because the group's coordinator may not be ready yet."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    def answered() -> bool:
        try:
            consumer.committed([TopicPartition("none", 0)], timeout=20)
        except KafkaException as refusal:
            if refusal.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return False
        return True

    consumer = Consumer({"bootstrap.servers": secured_broker.plaintext_address, "group.id": "first"})
    eventually(answered)
    consumer.close()


def test_config_show_masks_secrets_and_config_check_connects(secured_broker: SecuredBroker, tmp_path: Path) -> None:
    shown = run_component("config", secured_broker.values(), "", tmp_path, "show")
    assert shown.returncode == 0
    assert 'sasl_password = "**********"' in shown.stdout
    assert USER_PASSWORDS["monitor"] not in shown.stdout
    check_result = run_component("config", secured_broker.values(), "", tmp_path, "check")
    assert (check_result.returncode, check_result.stdout.startswith("ok: cluster ")) == (0, True)
    assert (
        run_component("config", secured_broker.values() | {"sasl_password": "x" * 9}, "", tmp_path, "check").returncode
        == 3
    )


@pytest.mark.parametrize(
    ("mechanism", "changes", "message"),
    [
        ("OAUTHBEARER", {}, "ok: cluster "),
        ("OAUTHBEARER", {"sasl_oauthbearer_client_secret": "not-the-secret"}, "refuses client 'monitor'"),
        ("OAUTHBEARER", {"sasl_oauthbearer_ca_file": "{folder}/other.pem"}, "set kafka.sasl_oauthbearer_ca_file"),
        ("certificate", {}, "ok: cluster "),
        (
            "certificate",
            {"ssl_certificate_file": "{folder}/other.pem", "ssl_key_file": "{folder}/other.key"},
            "it refuses this client's certificate; set kafka.ssl_certificate_file and kafka.ssl_key_file",
        ),
    ],
)
def test_tokens_and_certificates_are_accepted_or_refused(
    secured_broker: SecuredBroker, tmp_path: Path, mechanism: str, changes: dict[str, str], message: str
) -> None:
    environment = {name: text.format(folder=secured_broker.folder) for name, text in changes.items()}
    answer = run_component("config", secured_broker.values("monitor", mechanism) | environment, "", tmp_path, "check")
    assert answer.returncode == (3 if changes else 0)
    assert message in answer.stdout + answer.stderr
    assert not any(secret in answer.stderr for secret in (*USER_PASSWORDS.values(), "not-the-secret"))


def test_doctor_lists_what_is_missing(secured_broker: SecuredBroker, prefix: str, tmp_path: Path) -> None:
    answer = run_component(
        "doctor", secured_broker.values("stranger"), prefix, tmp_path, "--json", "--checkpoint", str(tmp_path)
    )
    checks = [json.loads(line) for line in answer.stdout.splitlines()]
    assert answer.returncode == 3
    findings_by_check = {check["check"]: check for check in checks}
    names = ("java", "jars", "broker", "permissions", "checkpoint")
    assert [name for name in names if not findings_by_check[name]["ok"]] == ["permissions"]
    assert any("may not write topic" in check["text"] for check in checks)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_states_of_groups_are_listed_with_every_mechanism(
    secured_broker: SecuredBroker, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    caplog.set_level("INFO")
    settings = KafkaSettings.model_validate(secured_broker.values(mechanism=mechanism))
    with GroupStates(settings, lambda _: True) as states:
        eventually(lambda: states.latest.number >= 2)
    lines = [line for line in caplog.messages if line.startswith("states of groups")]
    assert [line.split(";")[0] for line in lines] == ["states of groups: no group can be seen"]
