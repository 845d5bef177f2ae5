"""Runs collector, stream and server under each authentication mechanism, as users with minimal permissions."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from streaming.kafka.access import COMPONENTS, Permission, required_permissions, stream_topics
from streaming.kafka.runtime import free_ports
from streaming.kafka.topics import ensure_ticks, ensure_topics
from streaming.settings.config import Settings, load
from tests.support.command import RunningCommand
from tests.support.kafka import eventually, unique_name
from tests.support.members import Member
from tests.support.secure import USER_PASSWORDS, SecuredBroker, allow_operations, disallow, secure_broker, set_passwords
from tests.support.serving import ServeProcess
from tests.support.topics import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Pipeline:
    """The three components as processes; each process has its own user with only the permissions that it needs."""

    def __init__(self, secured_broker: SecuredBroker, mechanism: str, folder: Path) -> None:
        self.secured_broker, self.mechanism, self.folder = secured_broker, mechanism, folder
        self.group = unique_name("group")
        self.topic = create_topic(secured_broker.plaintext_address, unique_name("topic"), 4)
        self.settings: Settings = load(
            bootstrap_servers=secured_broker.plaintext_address, topic_prefix=f"{unique_name('secure')}."
        )
        ensure_topics(self.settings, stream_topics(self.settings))
        ensure_ticks(self.settings)
        self.page = ServeProcess(secured_broker.plaintext_address, self.settings.topics.prefix, folder)
        (self.page.port,) = free_ports(1)
        options = {
            "collect": ("--include-group", self.group),
            "stream": ("--checkpoint", str(folder / "checkpoint")),
            "serve": ("--port", str(self.page.port), "--database", str(folder / "history.sqlite")),
        }
        self.running = {
            name: RunningCommand(name, "--config", str(self._config(name)), *more, log=folder / f"{name}.log")
            for name, more in options.items()
        }
        self.page.process = None

    def _config(self, name: str) -> Path:
        """Write the settings file of a component, with copies of the component's certificate or password file."""
        values = self.secured_broker.values(name, self.mechanism)
        for setting in {"ssl_certificate_file", "ssl_key_file"} & values.keys():
            values[setting] = shutil.copy(str(values[setting]), self._component_file(name, setting))
        if (password := values.pop("sasl_password", None)) is not None:
            values["sasl_password_file"] = self._component_file(name, "sasl_password_file")
            values["sasl_password_file"].write_text(f"{password}\n")
        kafka = [f"{key} = {json.dumps(str(value))}" for key, value in values.items()]
        config = self.folder / f"{name}.toml"
        topics = ["[topics]", f'prefix = "{self.settings.topics.prefix}"', ""]
        config.write_text("\n".join(["[kafka]", *kafka, *topics]))
        return config

    def _component_file(self, name: str, setting: str) -> Path:
        return self.folder / f"own-{name}-{setting}"

    def permissions(self, name: str) -> list[Permission]:
        more = [Permission("Describe", self.topic)] if name == "collect" else []
        return [*required_permissions(name, self.settings), *more]

    def principal(self, name: str) -> str:
        return self.secured_broker.principal(name, self.mechanism)

    def rounds(self) -> int:
        for component in self.running.values():
            component.check()
        return len(self.page.ids())

    @contextmanager
    def started(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name, component in self.running.items():
                allow_operations(self.secured_broker, self.principal(name), *self.permissions(name))
                stack.enter_context(component.start())
            self.page.process = self.running["serve"].process
            self.page.await_status("/ready", 200)
            yield

    @contextmanager
    def member(self) -> Iterator[None]:
        """Run a member; wait until the round in which it joins has reached the page."""
        before = self.rounds()
        member = Member(self.secured_broker.plaintext_address, self.group, unique_name("member"), [self.topic])
        try:
            eventually(lambda: self.rounds() > before, timeout=240)
            yield
        finally:
            member.close()

    def renew(self) -> None:
        """Give every component a new password, or the certificate of a new user with the component's permissions."""
        for name, component in self.running.items():
            if self.mechanism == "certificate":
                self._new_certificate(name)
            else:
                password = f"{USER_PASSWORDS[name]}-of-today"
                set_passwords(self.secured_broker.plaintext_address, {name: password})
                self._component_file(name, "sasl_password_file").write_text(password)
            eventually(partial(self._has_renewed_credentials, component))

    def _new_certificate(self, name: str) -> None:
        pem = self.secured_broker.certificate("monitor")
        allow_operations(self.secured_broker, self.principal("monitor"), *self.permissions(name))
        for setting, file in (("ssl_certificate_file", pem), ("ssl_key_file", pem.with_suffix(".key"))):
            shutil.copy(file, self._component_file(name, setting))

    @staticmethod
    def _has_renewed_credentials(component: RunningCommand) -> bool:
        component.check()
        return "connecting again with them" in component.output()

    def forget(self) -> None:
        """Revoke all permissions of the users with which the components started."""
        for name in self.running:
            for permission in self.permissions(name):
                disallow(self.secured_broker, self.principal(name), permission)


@pytest.mark.parametrize(
    "mechanism",
    [
        "OAUTHBEARER",
        pytest.param("certificate", marks=pytest.mark.full),
        pytest.param("SCRAM-SHA-512", marks=pytest.mark.full),
    ],
)
def test_groups_reach_the_page_until_permissions_are_revoked(mechanism: str, tmp_path: Path) -> None:
    with secure_broker(tmp_path) as secured_broker:
        pipeline = Pipeline(secured_broker, mechanism, tmp_path)
        stream = pipeline.running["stream"]
        with pipeline.started(), pipeline.member():
            holder = "stream"
            if mechanism != "OAUTHBEARER":  # with OAUTHBEARER the clients renew their tokens themselves
                pipeline.renew()
                with pipeline.member():
                    pass
            if mechanism == "certificate":  # by now a component with its old credentials would have ended
                holder = "monitor"
                pipeline.forget()
                with pipeline.member():
                    pass
            written = Permission("Write", pipeline.settings.topics.diffs)
            disallow(secured_broker, pipeline.principal(holder), written)
            late = Member(secured_broker.plaintext_address, pipeline.group, unique_name("late"), [pipeline.topic])
            try:
                assert stream.ended(240) == 3
            finally:
                late.close()
            assert f"may not write topic {written.name}" in stream.output()
            assert f"--operation Write --topic '{written.name}'" in stream.output()
            assert {name: pipeline.running[name].stop() for name in ("collect", "serve")} == {"collect": 0, "serve": 0}
        logs = "".join(pipeline.running[name].output() for name in COMPONENTS)
        assert "Traceback" not in logs
        assert not any(secret in logs for secret in USER_PASSWORDS.values())
