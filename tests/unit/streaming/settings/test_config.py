import tomllib
from pathlib import Path

import pytest

from streaming.settings.config import ClusterSettings, CollectSettings, ServiceLevel, Settings, as_toml, load
from streaming.settings.notify import NotifyTarget
from streaming.settings.section import InvalidSettings, validate
from tests.support.pem import certificate


def refusal(config: Path | None = None, **options: str) -> str:
    with pytest.raises(InvalidSettings) as refused:
        load(config, **options)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[kafka]\nbootstrap_servrs = "x:1"', "bootstrap_servrs: unknown; did you mean kafka.bootstrap_servers?"),
        ('[kafaka]\nbootstrap_servers = "x:1"', "setting kafaka: unknown; did you mean kafka?"),
        ("[collect]\nq = 1", "setting collect.q: unknown; known names: group_id, include_groups"),
        ('[topics]\npartitions = "many"', "setting topics.partitions: Input should be a valid integer"),
        ("[topics]\npartitions = 0", "setting topics.partitions: Input should be greater than or equal to 1"),
        ("[topics]\npartitions = 100001", "topics.partitions: Input should be less than or equal to 100000"),
        ("[topics]\nreplication_factor = 99999", "Input should be less than or equal to 10000"),
        *(
            (f"[collect]\n{name} = 1{'0' * 400}", f"{name}: Input should be less than or equal to 86400000")
            for name in ("metadata_interval_ms", "poll_interval_ms", "poll_quick_ms")
        ),
        ('kafka = "x"', "setting kafka: must be a table, [kafka]"),
        ('[kafka]\nbootstrap_servers = "kafka"', "'kafka': must be host:port"),
        ('[kafka]\nbootstrap_servers = "a:1,b:99999"', "'b:99999': must be host:port"),
        ('[topics]\nprefix = "a b"', "'a b': Kafka takes letters"),
        ("[collect]\ninclude_groups = ['(']", "'(' is not a regular expression"),
        ("[kafka", "--config"),
        ("a = " + "[" * 2000, "monitor.toml: "),
        ("[topics]\npartitions = " + "9" * 5000, "monitor.toml: Exceeds the limit"),
        ("[topics]\npartitions = nan", "setting topics.partitions: Input should be a finite number"),
        ("[topics]\npartitions = 2024-99-99", "monitor.toml: "),
        ("[topics]\npartitions = 1\npartitions = 1", "monitor.toml: Cannot overwrite a value"),
        ("#" * (2**20 + 1), "monitor.toml: longer than 1048576 characters, the limit"),
        (
            '[[clusters]]\ncluster_name = "us"',
            "setting clusters: [kafka] and each entry need different cluster_names: let",
        ),
        ('[kafka]\ncluster_name = "eu"\n[[clusters]]\ncluster_name = "a/b"', "each entry need different cluster_names"),
        ('[kafka]\ncluster_name = "eu"\n[[clusters]]\ncluster_name = ".."', "each entry need different cluster_names"),
        ('[kafka]\ncluster_name = "eu"\n[[clusters]]\ncluster_name = "eu"', "each entry need different cluster_names"),
        ('[[clusters]]\ntopic_prefix = "a b"', "setting clusters.0.topic_prefix: 'a b': Kafka takes letters"),
        (
            '[[clusters]]\nbootstrap_servrs = "x:1"',
            "clusters.0.bootstrap_servrs: unknown; did you mean clusters.0.boot",
        ),
        ('[collect]\ncoordinator_logs = ["a\\u0000"]', "coordinator_logs: is not UTF-8 text"),
    ],
)
def test_wrong_setting_in_the_file_is_reported(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "monitor.toml"
    path.write_text(text)
    assert message in refusal(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KAFFKA__SASL_PASSWORD", "s3cret", "KAFFKA__SASL_PASSWORD: no table 'kaffka'; did you mean kafka?"),
        ("BOOTSTRAP_SERVERS", "x:1", "has no effect; write REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS"),
        ("COLLECT__INCLUDE_GROUPS", "a,b", 'for field "collect" from source "EnvSettingsSource"; lists and tables are'),
        ("KAFKA", '{"sasl_password": "s3cret"', 'for field "kafka" from source "EnvSettingsSource"; lists and tables'),
        ("KAFKA", "[" * 5000, "environment: "),
        ("TOPICS__PARTITIONS", "9" * 5000, "setting topics.partitions: "),
    ],
)
def test_wrong_environment_variable_is_reported(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"REBALANCE_MONITOR_{name}", value)
    message_shown = refusal()
    assert message in message_shown
    assert "s3cret" not in message_shown


def test_kubernetes_service_variables_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_SERVE_PORT_8686_TCP_ADDR", "10.0.0.1")
    monkeypatch.setenv("REBALANCE_MONITOR_PORT", "tcp://10.0.0.1:8686")
    assert load().kafka.bootstrap_servers == "127.0.0.1:9092"


def test_options_override_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "monitor.toml"
    path.write_text('[kafka]\nbootstrap_servers = "file:1"\n[topics]\nprefix = "file."\npartitions = 7\n')
    monkeypatch.setenv("REBALANCE_MONITOR_TOPICS__PREFIX", "environment.")
    settings = load(path)
    assert (settings.kafka.bootstrap_servers, settings.topics.diffs) == ("file:1", "environment.rebalance.diffs")
    settings = load(path, bootstrap_servers="line:1,[::1]:2", topic_prefix="line.")
    assert (settings.kafka.bootstrap_servers, settings.topics.prefix) == ("line:1,[::1]:2", "line.")
    assert settings.topics.partitions == 7
    assert "must be host:port" in refusal(bootstrap_servers="")
    assert "Kafka takes letters" in refusal(topic_prefix="a/b")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two certificates with their keys, of which the first key is encrypted, and two invalid files."""
    folder = tmp_path_factory.mktemp("keys")
    certificate(folder, "one", lock_phrase="s3cret")
    certificate(folder, "two")
    (folder / "no.pem").write_text("nothing of the kind")
    (folder / "empty").write_text("\n")
    return folder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ssl_ca_file": "no.pem"}, "no.pem: contains no PEM certificate"),
        ({"ssl_certificate_file": "one.pem", "ssl_key_file": "one.key"}, "needs its ssl_key_password"),
        (
            {"ssl_certificate_file": "one.pem", "ssl_key_file": "one.key", "ssl_key_password": "wrong-s3cret"},
            "needs its ssl_key_password",
        ),
        (
            {"ssl_certificate_file": "one.pem", "ssl_key_file": "two.key"},
            "two.key: is not the key of ssl_certificate_file",
        ),
    ],
)
def test_files_that_tls_cannot_use_are_named(
    keys: Path, tmp_path: Path, settings: dict[str, str], message: str
) -> None:
    path = tmp_path / "monitor.toml"
    lines = [f'{name} = "{keys / value if name.endswith("_file") else value}"' for name, value in settings.items()]
    path.write_text("\n".join(["[kafka]", 'security_protocol = "SSL"', *lines]))
    message_shown = refusal(path)
    assert message in message_shown
    assert "s3cret" not in message_shown


def test_encrypted_key_with_its_password_is_accepted(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "monitor.toml"
    path.write_text(
        f'[kafka]\nsecurity_protocol = "SSL"\nssl_certificate_file = "{keys}/one.pem"\n'
        f'ssl_key_file = "{keys}/one.key"\nssl_key_password = "s3cret"\nssl_ca_file = "{keys}/two.pem"\n'
    )
    settings = load(path)
    assert settings.kafka.uses_tls
    assert "s3cret" not in settings.model_dump_json()


@pytest.mark.parametrize(("bytes_", "message"), [(b"a = \xff", "can't decode byte 0xff"), (None, "Is a directory")])
def test_binary_file_is_rejected(tmp_path: Path, bytes_: bytes | None, message: str) -> None:
    path = tmp_path
    if bytes_ is not None:
        path = tmp_path / "monitor.toml"
        path.write_bytes(bytes_)
    assert message in refusal(path)


def test_endless_file_is_not_read_to_its_end() -> None:
    assert refusal(Path("/dev/zero")) == "--config /dev/zero: longer than 1048576 characters, the limit"


def test_shown_settings_are_toml() -> None:
    settings = load(topic_prefix="a.")
    groups = {"include_groups": ['\x1b\n\u202e\x85"é'], "exclude_groups": ["é", "😀"]}
    settings.collect = settings.collect.narrowed_to_groups(**groups)
    settings.notify = [NotifyTarget(name=name, type="pagerduty") for name in ("a", "b")]
    settings.slo = [ServiceLevel(groups="a", downtime_day_ms=1)]
    settings.clusters = [ClusterSettings(cluster_name="us", topic_prefix="b.", bootstrap_servers="us:1")]
    lines = list(as_toml(settings))
    assert 'exclude_groups = ["é", "😀"]' in lines
    assert all(line.isprintable() for line in lines)
    assert tomllib.loads("\n".join(lines)) == settings.model_dump(mode="json", exclude_none=True)


def test_each_cluster_and_prefix_has_its_own_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert str(load().default_history("abc")) == "/state/kafka-rebalance-monitor/history-abc.sqlite"
    named = load(topic_prefix="x.").default_history("abc")
    assert str(named) == "/state/kafka-rebalance-monitor/history-abc-x..sqlite"


def test_further_clusters_differ_in_connection_and_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "monitor.toml"
    path.write_text(
        '[kafka]\ncluster_name = "eu"\n[topics]\nprefix = "eu."\npartitions = 7\n[[slo]]\ndowntime_day_ms = 1\n'
        '[[clusters]]\ncluster_name = "us"\nbootstrap_servers = "us:1"\n'
    )
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS", "eu:1")
    settings = load(path)
    first, second = settings.cluster_settings
    assert first is settings
    assert [cluster_settings.kafka.bootstrap_servers for cluster_settings in (first, second)] == ["eu:1", "us:1"]
    assert (second.topics.diffs, second.topics.partitions, second.slo) == ("rebalance.diffs", 7, settings.slo)
    shown = tmp_path / "shown.toml"
    shown.write_text("\n".join(as_toml(settings)))
    assert load(shown).clusters == settings.clusters
    assert load().cluster_settings == [load()]


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(InvalidSettings) as refused:
        validate(Settings, {"kafka": {"sasl_pasword": "s3cret"}, "topics": {"prefx": "x"}})
    assert str(refused.value) == (
        "setting kafka.sasl_pasword: unknown; did you mean kafka.sasl_password?; "
        "setting topics.prefx: unknown; did you mean topics.prefix?"
    )


def test_logs_and_polling_exclude_each_other() -> None:
    collect = CollectSettings()
    assert collect.narrowed_to_groups() == collect
    one_log = collect.narrowed_to_groups(coordinator_logs=[Path("a")])
    assert one_log.narrowed_to_groups(coordinator_logs=[Path("b")]).coordinator_logs == [Path("a"), Path("b")]
    assert collect.narrowed_to_groups(by="polling").by == "polling"
    with pytest.raises(InvalidSettings, match=r"setting collect: coordinator_logs: have no effect with by"):
        collect.narrowed_to_groups(by="polling", coordinator_logs=[Path("a")])


def test_prefix_length_is_limited_by_kafkas_topic_names() -> None:
    """Kafka's limit of 249 characters applies to the prefix with the longest of the monitor's topic names."""
    topics = load(topic_prefix="p" * (249 - len("rebalance.membership-dlt"))).topics
    names = (*topics.made, topics.ticks)
    assert max(map(len, names)) == 249
    with pytest.raises(InvalidSettings, match=r"topics\.prefix"):
        load(topic_prefix="p" * (250 - len("rebalance.membership-dlt")))
