"""Every command that README and the how-to pages print: it runs here, or ``NOT_RUN`` says why it does not.

The commands run as printed, but for addresses and folders: those of a broker with a history of the group ``checkout``,
of a page over this broker, and of a folder that has the files which the pages name.
"""

import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.group_reader import read_log, replay_sinks
from streaming.kafka.producer import EventProducer
from streaming.kafka.runtime import free_ports
from streaming.kafka.topics import ensure_topics
from streaming.recording.history import RecordedHistory
from streaming.records.codec import encode
from streaming.records.episodes import key
from streaming.records.events import Event
from streaming.settings.config import load
from tests.acceptance.deploy.test_kubernetes import go_tool
from tests.support.command import RunningCommand
from tests.support.histories import Log
from tests.support.incidents import incident
from tests.support.receiver import receiver
from tests.support.wait import eventually
from tests.unit.streaming.cli.conftest import Command

pytestmark = pytest.mark.broker

ROOT = Path(__file__).resolve().parents[2]
HOWTOS = ROOT / "docs" / "how-to"
PAGES = [ROOT / "README.md", *sorted(HOWTOS.glob("*.md"))]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`((?:kubectl [^`]+)?rebalance-monitor [\w-]+ [^`]+)`")
#: Languages of blocks without commands.
OTHER_LANGUAGES = {"java", "json", "python", "toml", "yaml"}

#: Commands that do not run here (matched from their beginning), and what checks them instead.
NOT_RUN = {
    r"make \w+": "`make --dry-run` runs in their place: they install, test or write into the clone",
    r"rebalance-monitor (run|stream) --": "Spark: test_run.py, the tutorial's test and test_cluster.py start these",
    r"rebalance-monitor stream archive": "packs 90 MB for a Spark cluster: test_cluster.py",
    r"rebalance-monitor (stream (resize|inspect-state)|doctor --checkpoint)": "need a checkpoint of Spark's, as "
    "test_resize.py and test_checkpoint.py have",
    r"pip install": "nothing is released yet; test_install.py installs the wheel",
    r"(export .*BOOTSTRAP|docker-compose )": "test_compose.py starts this project",
    r"helm (install|upgrade)": "needs a Kubernetes cluster: rendered with the same options below",
    r"kubectl (apply -k|create secret)": "needs a Kubernetes cluster: test_kubernetes.py builds the overlays",
    r"kafka-(topics|acls)\.sh": "Kafka's own tools, which the embedded broker does not have",
    r"useradd|python3 -m venv|install -D|cp deploy/systemd|systemctl": "need root and systemd: test_systemd.py",
}
#: Commands that run until they are stopped.
FOLLOWS = re.compile(
    r"rebalance-monitor (serve|collect|otlp|notify --|watch (--stories|--group \w+)$)|curl --no-buffer"
)
#: Commands whose exit status is not 0, by the text around them or by the option that asks for it.
STATUSES = {r"why checkout --at 2026-11-14T23:10:00Z": {1}, r"--fail-": {0, 1}}
#: Commands without a pipe or a redirection, which run in this process: a new one takes most of a second to start.
PLAIN = re.compile(r"rebalance-monitor (?!mcp )[^|<>&;$]+")
#: Seconds that a command which follows has to run.
FOLLOW_SECONDS = 2.0


def commands(page: Path) -> list[str]:
    """Return the commands of a page: those of its blocks, then those of its text and tables."""
    text, printed = page.read_text(), list[str]()
    for _, language, block in BLOCK.findall(text):
        assert language in {"", "console", *OTHER_LANGUAGES}, f"{page.name}: {language}"
        lines = textwrap.dedent(block).replace("\\\n", " ").splitlines()
        if language == "console":
            printed += [line[2:] for line in lines if line.startswith("$ ")]
        elif not language and block.isascii():  # else it is a diagram
            printed += lines
    spans = (span.replace("\n", " ").replace("\\|", "|") for span in CODE_SPAN.findall(BLOCK.sub("", text)))
    return list(dict.fromkeys([*printed, *spans]))


def reason_not_to_run(line: str) -> str | None:
    return next((reason for pattern, reason in NOT_RUN.items() if re.match(pattern, line)), None)


class Checkout(Log):
    """The events of the group ``checkout``, whose members restart one by one again and again."""

    def __init__(self) -> None:
        super().__init__("checkout")
        self.clock = 0
        self.members: dict[str, str] = {}

    def now(self) -> int:
        return self.clock

    def start(self, name: str) -> Event:
        self.clock += 3000
        self.members[name] = f"{name}-{self.count}"
        names = {"client_id": name, "client_host": "/10.0.3.17"}
        return self.join(self.members[name], "orders", assignors=["range"], **names)

    def stop(self, name: str) -> Event:
        self.clock += 3000
        return self.leave(self.members[name], reason="the consumer is being closed")


def epoch_ms(moment: str) -> int:
    return int(datetime.fromisoformat(f"2026-{moment}:00Z").timestamp() * 1000)


def history(now_ms: int) -> Iterator[Event]:
    """Yield the events of 19 episodes: 16 of one day, two of another (17 and 18), and one of an hour ago."""
    log = Checkout()
    log.clock = epoch_ms("01-31T09:00")
    yield log.topics(orders=18, refunds=6)
    for name in ("checkout-0", "checkout-1", "pay-3"):
        yield log.start(name)
    restarts = [epoch_ms(f"01-31T09:{minute:02}") for minute in range(4, 60, 4)]
    restarts += map(epoch_ms, ("01-31T10:10", "11-14T22:23", "11-14T23:30"))
    for log.clock in (*restarts, max(now_ms - 3_600_000, restarts[-1] + 600_000)):
        for name in ("checkout-0", "checkout-1"):
            yield log.stop(name)
            yield log.start(name)


def publish_history(servers: str) -> None:
    """Write the events and what the stream computes from them, and an incident with the number 3."""
    settings, now_ms = load(bootstrap_servers=servers), int(time.time() * 1000)
    ensure_topics(settings, settings.topics.made)
    with EventProducer(settings) as producer:
        for event in history(now_ms):
            producer.send(event)
    computed = RecordedHistory(replay_sinks(settings))
    with EventProducer(settings) as producer:
        for output in computed.play(read_log(settings)):
            producer.send_record(*output.write[:4])
        for topic, record_key, value in computed.values():
            if topic == settings.topics.assignments:
                producer.send_record(topic, record_key, value)
        opened = incident("checkout", 3, opened_at=now_ms - 60_000)
        producer.send_record(settings.topics.incidents, key("checkout", 3), encode(opened))


BROKER_LOG = (
    "[2024-05-01 10:00:00,110] INFO [GroupCoordinator 1]: Dynamic member with unknown member id joins group orders in "
    "Empty state. Created a new member id pay-1-11111111-1111-4111-8111-111111111111 and requesting the member to "
    "rejoin with this id. (kafka.coordinator.group.GroupCoordinator)\n"
    "[2024-05-01 10:00:00,110] INFO [GroupCoordinator 1]: Preparing to rebalance group orders in state "
    "PreparingRebalance with old generation 0 (__consumer_offsets-4) (reason: Adding new member "
    "pay-1-11111111-1111-4111-8111-111111111111 with group instance id None; client reason: not provided) "
    "(kafka.coordinator.group.GroupCoordinator)\n"
    "[2024-05-01 10:00:03,110] INFO [GroupCoordinator 1]: Stabilized group orders generation 1 (__consumer_offsets-4) "
    "with 1 members (kafka.coordinator.group.GroupCoordinator)\n"
)


@dataclass
class Stage:
    """Addresses and folder for the commands: a broker, a page over it, a port for a second page, the named files."""

    servers: str
    url: str
    second_port: int
    folder: Path

    def adapted(self, line: str) -> str:
        """Return a printed command with the addresses and folders of this stage."""
        for pattern, value in (
            (r"\bkafka(-\d)?:9092(,kafka-\d:9092)*", self.servers),
            (r"http://127\.0\.0\.1:8686", self.url),
            (r"http://(feed\.internal|monitor):8686", f"http://127.0.0.1:{self.second_port}"),
            (r"http://otel-collector:4318", "http://127.0.0.1:9"),
            (r"(rebalance-monitor serve\b.*)", rf"\1 --port {self.second_port}"),
            (r"/run/secrets", str(self.folder)),
            (r"\b(G|GROUP)\b", "checkout"),
            (r"\bNUMBER\b", "3"),
            (r"(--coordinator-log) FILE", r"\1 server.log"),
            (r"\bcurl ", "curl --fail --silent --show-error "),
        ):
            line = re.sub(pattern, value, line)
        return line


def write_files(folder: Path, servers: str, receiver_url: str) -> None:
    """Write the files that the pages name, with the content that they print where they print one."""
    (deploy,) = re.findall(r"```yaml\n(events:.*?)```", (HOWTOS / "forecast.md").read_text(), re.DOTALL)
    receives = f'[[notify]]\nname = "ops"\ntype = "webhook"\nurl = "{receiver_url}"\nallow_private = true\n'
    certificate = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=monitor -keyout key.pem -out cert.pem"
    subprocess.run(shlex.split(certificate), cwd=folder, capture_output=True, check=True)
    exported = "openssl pkcs12 -export -inkey key.pem -in cert.pem -passout pass:secret -out monitor.p12"
    subprocess.run(shlex.split(exported), cwd=folder, capture_output=True, check=True)
    (folder / "bin").mkdir()
    (folder / "deploy").symlink_to(ROOT / "deploy")
    for name, text in {
        "deploy.yaml": deploy,
        "consumer.properties": "session.timeout.ms=6000\nmax.poll.interval.ms=300000\n",
        "application.yml": "spring:\n  kafka:\n    consumer:\n      group-id: checkout\n",
        "monitor.toml": f'[kafka]\nbootstrap_servers = "{servers}"\n\n{receives}',
        "lag.json": '{"annotations": {"list": []}}',
        "server.log": BROKER_LOG,
        "bin/kubectl": "#!/bin/sh\ncat server.log\n",  # `kubectl logs kafka-0`
    }.items():
        (folder / name).write_text(text)
    (folder / "bin" / "kubectl").chmod(0o755)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Run the broker and the page; the environment names the broker, as the pages suggest."""
    folder = tmp_path_factory.mktemp("howtos")
    with ExitStack() as stack:
        servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        write_files(folder, servers, stack.enter_context(receiver()).url)
        publish_history(servers)
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        monkeypatch.setenv("REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS", servers)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder))
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, (folder / "bin", Path(sys.executable).parent))), ":")
        monkeypatch.chdir(folder)
        port, second_port = free_ports(2)
        arguments = ("--port", str(port), "--database", str(folder / "page.sqlite"))
        page = stack.enter_context(RunningCommand("serve", *arguments, log=folder / "page.log"))
        page.start()
        stage = Stage(servers, f"http://127.0.0.1:{port}", second_port, folder)
        eventually(lambda: page.check() or serves_checkout(stage.url), timeout=60, every=0.2)
        yield stage


def serves_checkout(url: str) -> bool:
    done = subprocess.run(
        ["curl", "--fail", "--silent", f"{url}/api/v1/groups/checkout"], capture_output=True, check=False
    )
    return done.returncode == 0


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Yield the command line in this process; afterwards, restore signal handlers and the root logger's handlers."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Command(monkeypatch, capsys)
    for number, handler in kept.items():
        signal.signal(number, handler)
    root.handlers[:], root.level = handlers, level


def handles_sigterm(pid: int) -> bool:
    """Return true once a process has a handler for SIGTERM, with which it ends in order."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


class Followers:
    """Commands that run until they are stopped: one of a kind at a time, each for some seconds."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._running: dict[str, tuple[str, subprocess.Popen[str], float]] = {}
        self.problems: dict[str, str] = {}

    def start(self, line: str) -> None:
        kind = " ".join(line.split()[:2])
        self.stop(kind)
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if not line.startswith("curl"):
            eventually(lambda: process.poll() is not None or handles_sigterm(process.pid), every=0.05)
        self._running[kind] = line, process, time.monotonic()
        if kind.endswith("serve"):
            address = f"http://127.0.0.1:{self._stage.second_port}/health"
            asked = ["curl", "--silent", address]
            eventually(lambda: subprocess.run(asked, capture_output=True, check=False).returncode == 0, every=0.1)

    def stop(self, kind: str) -> None:
        if kind not in self._running:
            return
        line, process, started = self._running.pop(kind)
        try:
            process.wait(max(0.0, started + FOLLOW_SECONDS - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.terminate()
            output, _ = process.communicate(timeout=60)
            is_wrong = re.search(r"^(Traceback|error:)", output, re.MULTILINE)
            if is_wrong or (process.returncode and not line.startswith("curl")):
                self.problems[line] = f"status {process.returncode}: {output[-1000:]}"
        else:
            self.problems[line] = f"ended with {process.returncode}: {process.communicate()[0][-1000:]}"

    def close(self) -> None:
        for kind in list(self._running):
            self.stop(kind)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_printed_commands_run(stage: Stage, command: Command, page: Path) -> None:
    followers, problems = Followers(stage), dict[str, str]()
    for printed in commands(page):
        line = stage.adapted(printed)
        if printed.startswith("make "):
            subprocess.run(
                ["make", "--dry-run", *shlex.split(printed, comments=True)[1:]],
                cwd=ROOT,
                check=True,
                capture_output=True,
            )
        if reason_not_to_run(printed) is not None:
            continue
        if FOLLOWS.match(printed):
            followers.start(line)
            continue
        if PLAIN.fullmatch(line.partition(" #")[0].strip()):
            status, output, errors = command(*shlex.split(line, comments=True)[1:])
        else:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                input="secret\n" * 3 if printed.startswith("openssl pkcs12") else "",
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
                start_new_session=True,  # without a terminal, openssl reads a password from standard input
            )
            status, output, errors = done.returncode, done.stdout, done.stderr
        wanted = next((statuses for pattern, statuses in STATUSES.items() if re.search(pattern, printed)), {0})
        if status not in wanted or "Traceback" in errors:
            problems[printed] = f"status {status}: {output[-500:]}{errors[-1000:]}"
    followers.close()
    assert problems | followers.problems == {}


def test_printed_helm_commands_render_the_chart() -> None:
    helm = go_tool("helm")
    printed = [line for page in PAGES for line in commands(page) if line.startswith("helm ")]
    assert printed
    for line in printed:
        options = [word for word in shlex.split(line)[2:] if word not in {"--create-namespace", "--reuse-values"}]
        command = [helm, "template", *options, "--kube-version", "1.33"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_reasons_name_printed_commands() -> None:
    printed = [line for page in PAGES for line in commands(page)]
    assert [pattern for pattern in NOT_RUN if not any(re.match(pattern, line) for line in printed)] == []
    assert [pattern for pattern in STATUSES if not any(re.search(pattern, line) for line in printed)] == []
