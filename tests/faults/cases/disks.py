"""Disks that are full, read-only or slow, and the files of all but `stream`."""

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

#: What is done to a disk, and undone.
Spoil = Callable[[Path], AbstractContextManager[None]]
_SLOW_MS = 20


def garble(file: Path) -> None:
    """Every bit that matters is another."""
    file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))


def _disk(site: Site, name: str) -> Path:
    """The file system that a part writes to."""
    folder = {"serve": site.history.parent, "stream": site.checkpoint.parent, "broker": site.broker.data_dir.parent}[
        name
    ]
    if not folder.is_mount():
        pytest.skip("no file system may be mounted here")
    return folder


@contextmanager
def serve_full(site: Site) -> Iterator[list[Report]]:
    """No block is left for the history, which goes on when there is room again."""
    with full(_disk(site, "serve")):
        site.change()
        yield [site.faces_say("history-blocked")]


@contextmanager
def disk(site: Site, name: str, spoil: Spoil, words: str) -> Iterator[list[Report]]:
    """The disk of a part that ends when it can't write, and says so."""
    within = SPARK_SECONDS if name == "stream" else 15.0
    place = site.checkpoint if name == "stream" else site.history
    told = site.ends(name, str(place), words, within=within)
    with spoil(_disk(site, name)):
        site.change()
        yield [told]
    site.begin(name)


@contextmanager
def broker_disk(site: Site, spoil: Spoil) -> Iterator[list[Report]]:
    """Kafka ends when it can't write: the report is that it is away."""
    told = site.silence()
    with spoil(_disk(site, "broker")):
        _until_it_fails(site)
        yield told
        site.broker.kill()
    site.begin("broker")


def _until_it_fails(site: Site) -> None:
    """The broker is written to until it has ended."""

    def failed() -> bool:
        with suppress(OSError, Refused):
            site.change_once()
        return not site.broker.running

    eventually(failed, timeout=PATIENCE, every=0.2)


@contextmanager
def slow(site: Site, name: str) -> Iterator[list[Report]]:
    """Each write to a file and each flush takes 20 ms more."""
    with site.host(name).slow_disk(_SLOW_MS):
        site.settle()
        yield [site.nothing(name)]


@contextmanager
def history_lost(site: Site) -> Iterator[list[Report]]:
    """Removed while it is used."""
    told = site.ends("serve", str(site.history), "was removed or replaced while in use")
    site.history.unlink()
    yield [told]
    site.begin("serve")


@contextmanager
def history_damaged(site: Site) -> Iterator[list[Report]]:
    """Garbled while nobody uses it; the way out is the one that the message names."""
    site.end("serve")
    told = site.ends("serve", str(site.history), "is damaged", "remove it to build it anew")
    site.history.write_bytes(site.history.read_bytes()[:100] + os.urandom(site.history.stat().st_size - 100))
    site.serve.start(wait=False)
    yield [told]
    site.history.unlink()
    site.begin("serve")


@contextmanager
def no_files(site: Site) -> Iterator[list[Report]]:
    """The collector has none that could be lost: its place is in the cluster."""
    log = site.collect.log
    descriptors = Path(f"/proc/{site.collect.pid}/fd").iterdir()
    written = {descriptor.readlink() for descriptor in descriptors if _is_written(descriptor)}
    assert {one for one in written if one.is_file()} <= {log}
    yield [site.nothing("collect", "it keeps no file")]


def _is_written(descriptor: Path) -> bool:
    """Return true if it is open for writing: the last octal digit of its flags is how it was opened."""
    info = descriptor.parents[1] / "fdinfo" / descriptor.name
    flags = next(line.split()[1] for line in info.read_text().splitlines() if line.startswith("flags"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


@contextmanager
def place_lost(site: Site) -> Iterator[list[Report]]:
    """The place that the collector goes on from, as after too long a rest: it reads all again."""
    site.end("collect")
    admin = AdminClient({"bootstrap.servers": site.servers})
    group = site.serve.settings.topics.prefix + site.serve.settings.collect.group_id
    admin.delete_consumer_groups([group])[group].result(20)
    site.begin("collect")
    yield [site.nothing("collect", "it publishes all again, with the same ids")]


def _spoil_topic(site: Site, topic: str, spoil: Callable[[Path], object]) -> None:
    """Its log files, while the broker is down after a crash."""
    site.broker.kill()
    for file in site.broker.data_dir.glob(f"storage/{topic}-*/*.log"):
        if file.stat().st_size:
            spoil(file)
    site.begin("broker")


@contextmanager
def diffs_spoiled(site: Site, spoil: Callable[[Path], object]) -> Iterator[list[Report]]:
    """The records of the file are gone from the topic."""
    site.written |= {*site.topic_ids()}
    told = site.log_says("serve", "ends at", "before", "read again", within=40.0)
    _spoil_topic(site, site.diffs, spoil)
    site.change()
    yield [told]


@contextmanager
def membership_spoiled(site: Site, spoil: Callable[[Path], object]) -> Iterator[list[Report]]:
    """`stream` had read it all, and is started with a choice that the message names."""
    site.past.append(site.log())
    told = site.ends("stream", f"topic {site.membership} has lost records", within=SPARK_SECONDS)
    _spoil_topic(site, site.membership, spoil)
    yield [told]
    site.begin_once("stream", "--on-data-loss", "restart")
