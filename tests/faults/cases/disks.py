"""Full, read-only and slow disks, and lost or damaged files of all components except `stream`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.faults.site import SPARK_SECONDS, Report, Site
from tests.support.disks import full
from tests.support.kafka import eventually
from tests.support.monitor import PATIENCE
from tests.support.raw_leader import Refused

#: A context manager that breaks a disk and repairs it at the end.
DamageDisk = Callable[[Path], AbstractContextManager[None]]
_SLOW_MS = 20


def flip_bits(file: Path) -> None:
    """Flip every bit of a file's content."""
    file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))


def _disk(site: Site, name: str) -> Path:
    """Return the file system to which a component writes."""
    folder = {"serve": site.history.parent, "stream": site.checkpoint.parent, "broker": site.broker.data_dir.parent}[
        name
    ]
    if not folder.is_mount():
        pytest.skip("no file system may be mounted here")
    return folder


@contextmanager
def serve_full(site: Site) -> Iterator[list[Report]]:
    """Fill the disk of the history; `serve` continues to write the history once there is space again."""
    with full(_disk(site, "serve")):
        site.change()
        yield [site.server_reports("history-blocked")]


@contextmanager
def disk(site: Site, name: str, damage: DamageDisk, words: str) -> Iterator[list[Report]]:
    """Break the disk of a component that exits with a message when it can't write."""
    within = SPARK_SECONDS if name == "stream" else 15.0
    place = site.checkpoint if name == "stream" else site.history
    report = site.ends(name, str(place), words, within=within)
    with damage(_disk(site, name)):
        site.change()
        yield [report]
    site.begin(name)


@contextmanager
def broker_disk(site: Site, damage: DamageDisk) -> Iterator[list[Report]]:
    """Break the broker's disk: the broker exits, so the expected report is that the broker is unavailable."""
    report = site.silence()
    with damage(_disk(site, "broker")):
        _write_until_broker_fails(site)
        yield report
        site.broker.kill()
    site.begin("broker")


def _write_until_broker_fails(site: Site) -> None:
    """Write records to the broker until the broker has exited."""

    def failed() -> bool:
        with suppress(OSError, Refused):
            site.change_once()
        return not site.broker.running

    eventually(failed, timeout=PATIENCE, every=0.2)


@contextmanager
def slow(site: Site, name: str) -> Iterator[list[Report]]:
    """Delay each write and each flush to a file by 20 ms."""
    with site.host(name).slow_disk(_SLOW_MS):
        site.settle()
        yield [site.nothing(name)]


@contextmanager
def history_lost(site: Site) -> Iterator[list[Report]]:
    """Delete the history while `serve` uses it."""
    report = site.ends("serve", str(site.history), "was removed or replaced while in use")
    site.history.unlink()
    yield [report]
    site.begin("serve")


@contextmanager
def history_damaged(site: Site) -> Iterator[list[Report]]:
    """Overwrite the history while `serve` is stopped, then remove it as the error message advises."""
    site.end("serve")
    report = site.ends("serve", str(site.history), "is damaged", "remove it to build it again")
    site.history.write_bytes(site.history.read_bytes()[:100] + os.urandom(site.history.stat().st_size - 100))
    site.serve.start(wait=False)
    yield [report]
    site.history.unlink()
    site.begin("serve")


@contextmanager
def no_files_to_lose(site: Site) -> Iterator[list[Report]]:
    """Check that the collector writes no file except its log: its position is stored in the cluster."""
    log = site.collect.log
    descriptors = Path(f"/proc/{site.collect.pid}/fd").iterdir()
    written = {descriptor.readlink() for descriptor in descriptors if _is_written(descriptor)}
    assert {path for path in written if path.is_file()} <= {log}
    yield [site.nothing("collect", "it keeps no file")]


def _is_written(descriptor: Path) -> bool:
    """Return true if a file is open for writing: the last octal digit of the open flags is the access mode."""
    info = descriptor.parents[1] / "fdinfo" / descriptor.name
    flags = next(line.split()[1] for line in info.read_text().splitlines() if line.startswith("flags"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


@contextmanager
def offsets_lost(site: Site) -> Iterator[list[Report]]:
    """Delete the collector's offsets, as offsets.retention.minutes would: the collector then reads everything again."""
    site.end("collect")
    admin = AdminClient({"bootstrap.servers": site.servers})
    group = site.serve.settings.topics.prefix + site.serve.settings.collect.group_id
    admin.delete_consumer_groups([group])[group].result(20)
    site.begin("collect")
    yield [site.nothing("collect", "it publishes all again, with the same ids")]


def _damage_topic_files(site: Site, topic: str, damage: Callable[[Path], object]) -> None:
    """Overwrite a topic's log files while the broker is down after a crash."""
    site.broker.kill()
    for file in site.broker.data_dir.glob(f"storage/{topic}-*/*.log"):
        if file.stat().st_size:
            damage(file)
    site.begin("broker")


@contextmanager
def diffs_damaged(site: Site, damage: Callable[[Path], object]) -> Iterator[list[Report]]:
    """Damage the diff topic's log files so that the topic's records are lost."""
    site.written |= {*site.topic_ids()}
    report = site.log_contains("serve", "ends at", "before", "read again", within=40.0)
    _damage_topic_files(site, site.diffs, damage)
    site.change()
    yield [report]


@contextmanager
def membership_damaged(site: Site, damage: Callable[[Path], object]) -> Iterator[list[Report]]:
    """Lose records that `stream` had already read, then start `stream` with the option that the message names."""
    site.past.append(site.log())
    report = site.ends("stream", f"topic {site.membership} has lost records", within=SPARK_SECONDS)
    _damage_topic_files(site, site.membership, damage)
    yield [report]
    site.begin_with_options("stream", "--on-data-loss", "restart")
