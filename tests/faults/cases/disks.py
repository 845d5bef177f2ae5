"""Full, read-only and slow disks, and lost or damaged files of all components except `stream`."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.faults.site import SPARK_SECONDS, Report, TestedMonitor
from tests.support.disks import full
from tests.support.kafka import eventually
from tests.support.monitor import TIMEOUT_SECONDS
from tests.support.raw_leader import RequestRefused

#: A context manager that breaks a disk and repairs it at the end.
DamageDisk = Callable[[Path], AbstractContextManager[None]]
_WRITE_DELAY_MS = 20


def flip_bits(file: Path) -> None:
    """Flip every bit of a file's content."""
    file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))


def _component_disk(tested_monitor: TestedMonitor, name: str) -> Path:
    """Return the simulated file system to which a component writes."""
    folder = {
        "serve": tested_monitor.history.parent,
        "stream": tested_monitor.checkpoint.parent,
        "broker": tested_monitor.broker.data_dir.parent,
    }[name]
    if not folder.is_mount():
        pytest.skip("no file system may be mounted here")
    return folder


@contextmanager
def fill_history_disk(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Fill the disk of the history; `serve` continues to write the history once there is space again."""
    with full(_component_disk(tested_monitor, "serve")):
        tested_monitor.change()
        yield [tested_monitor.server_reports("history-blocked")]


@contextmanager
def break_disk(tested_monitor: TestedMonitor, name: str, damage: DamageDisk, words: str) -> Iterator[list[Report]]:
    """Let the disk of a component fail; the component must then exit with a message that contains ``words``."""
    within = SPARK_SECONDS if name == "stream" else 15.0
    place = tested_monitor.checkpoint if name == "stream" else tested_monitor.history
    report = tested_monitor.ends(name, str(place), words, within=within)
    with damage(_component_disk(tested_monitor, name)):
        tested_monitor.change()
        yield [report]
    tested_monitor.begin(name)


@contextmanager
def broker_disk(tested_monitor: TestedMonitor, damage: DamageDisk) -> Iterator[list[Report]]:
    """Damage the disk of the broker, which then exits; yield the expected reports that the broker is unavailable."""
    report = tested_monitor.wait_without_reports()
    with damage(_component_disk(tested_monitor, "broker")):
        _write_until_broker_fails(tested_monitor)
        yield report
        tested_monitor.broker.kill()
    tested_monitor.begin("broker")


def _write_until_broker_fails(tested_monitor: TestedMonitor) -> None:
    """Write records to the broker until the broker has exited."""

    def failed() -> bool:
        with suppress(OSError, RequestRefused):
            tested_monitor.change_new_group()
        return not tested_monitor.broker.running

    eventually(failed, timeout=TIMEOUT_SECONDS, every=0.2)


@contextmanager
def slow(tested_monitor: TestedMonitor, name: str) -> Iterator[list[Report]]:
    """Delay each write and each flush to a file by 20 ms."""
    with tested_monitor.host(name).slow_disk(_WRITE_DELAY_MS):
        tested_monitor.settle()
        yield [tested_monitor.nothing(name)]


@contextmanager
def delete_history(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Delete the history while `serve` uses it."""
    report = tested_monitor.ends("serve", str(tested_monitor.history), "was removed or replaced while in use")
    tested_monitor.history.unlink()
    yield [report]
    tested_monitor.begin("serve")


@contextmanager
def history_damaged(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Overwrite the history while `serve` is stopped, then remove it as the error message advises."""
    tested_monitor.end("serve")
    report = tested_monitor.ends("serve", str(tested_monitor.history), "is damaged", "remove it to build it again")
    tested_monitor.history.write_bytes(
        tested_monitor.history.read_bytes()[:100] + os.urandom(tested_monitor.history.stat().st_size - 100)
    )
    tested_monitor.serve.start(wait=False)
    yield [report]
    tested_monitor.history.unlink()
    tested_monitor.begin("serve")


@contextmanager
def delete_recreatable_files(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Check that the collector writes no file except its log: its position is stored in the cluster."""
    log = tested_monitor.collect.log
    descriptors = Path(f"/proc/{tested_monitor.collect.pid}/fd").iterdir()
    written = {descriptor.readlink() for descriptor in descriptors if _is_open_for_writing(descriptor)}
    assert {path for path in written if path.is_file()} <= {log}
    yield [tested_monitor.nothing("collect", "it keeps no file")]


def _is_open_for_writing(descriptor: Path) -> bool:
    """Return true if a file is open for writing: the last octal digit of the open flags is the access mode."""
    info = descriptor.parents[1] / "fdinfo" / descriptor.name
    flags = next(line.split()[1] for line in info.read_text().splitlines() if line.startswith("flags"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


@contextmanager
def delete_collector_offsets(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Delete the collector's offsets, as offsets.retention.minutes would: the collector then reads everything again."""
    tested_monitor.end("collect")
    admin = AdminClient({"bootstrap.servers": tested_monitor.servers})
    group = tested_monitor.serve.settings.topics.prefix + tested_monitor.serve.settings.collect.group_id
    admin.delete_consumer_groups([group])[group].result(20)
    tested_monitor.begin("collect")
    yield [tested_monitor.nothing("collect", "it publishes all again, with the same ids")]


def _damage_topic_files(tested_monitor: TestedMonitor, topic: str, damage: Callable[[Path], object]) -> None:
    """Damage the log files of a topic while the broker is down, and start the broker again."""
    tested_monitor.broker.kill()
    for file in tested_monitor.broker.data_dir.glob(f"storage/{topic}-*/*.log"):
        if file.stat().st_size:
            damage(file)
    tested_monitor.begin("broker")


@contextmanager
def damage_diff_topic(tested_monitor: TestedMonitor, damage: Callable[[Path], object]) -> Iterator[list[Report]]:
    """Damage the diff topic's log files so that the topic's records are lost."""
    tested_monitor.written |= {*tested_monitor.topic_ids()}
    report = tested_monitor.log_contains("serve", "ends at", "before", "read again", within=40.0)
    _damage_topic_files(tested_monitor, tested_monitor.diffs, damage)
    tested_monitor.change()
    yield [report]


@contextmanager
def membership_damaged(tested_monitor: TestedMonitor, damage: Callable[[Path], object]) -> Iterator[list[Report]]:
    """Lose records that `stream` had already read, then start `stream` with the option that the message names."""
    tested_monitor.past.append(tested_monitor.log())
    report = tested_monitor.ends("stream", f"topic {tested_monitor.membership} has lost records", within=SPARK_SECONDS)
    _damage_topic_files(tested_monitor, tested_monitor.membership, damage)
    yield [report]
    tested_monitor.restart_from_retained_records()
