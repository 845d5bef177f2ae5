"""What befalls whom: every row of the table, in an order that leaves each what it needs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from streaming.kafka.identity import identify
from streaming.kafka.topics import ensure_topics
from tests.faults.site import Case, Site, Told
from tests.support.disks import full, read_only
from tests.support.kafka import eventually
from tests.support.monitor import PATIENCE
from tests.support.raw_leader import Refused
from tests.support.stream_job import processes_of

#: What a busy machine may take to end a Spark job, or to start one.
_SPARK_SECONDS = 90.0
#: What is done to a disk, and undone.
_Spoil = Callable[[Path], AbstractContextManager[None]]


def _pids(site: Site, name: str) -> list[int]:
    """All processes of a part."""
    if name == "broker":
        assert site.broker.pid is not None
        return [site.broker.pid]
    if name == "stream":
        return [pid for part in processes_of(site.stream.pid).values() for pid in part]
    return [site.parts[name].pid]


def _start(site: Site, name: str) -> None:
    if name == "broker":
        site.broker.start()
    else:
        site.parts[name].start()
    if name == "serve":
        site.serve.await_status("/health", 200, 60)


def _stop(site: Site, name: str) -> None:
    if name == "broker":
        site.broker.stop()
    else:
        assert site.parts[name].stop(seconds=60) == 0


# Processes


@contextmanager
def killed(site: Site, name: str) -> Iterator[list[Told]]:
    """SIGKILL, with all that it started."""
    site.parts[name].kill()
    yield [site.gone_dark(name)]
    _start(site, name)


@contextmanager
def jvm_killed(site: Site) -> Iterator[list[Told]]:
    """SIGKILL of Spark's JVM alone."""
    told = site.ends("stream", "Spark's JVM is gone", within=_SPARK_SECONDS)
    for pid in processes_of(site.stream.pid)["jvm"]:
        os.kill(pid, signal.SIGKILL)
    yield [told]
    _start(site, "stream")


@contextmanager
def stopped(site: Site, name: str) -> Iterator[list[Told]]:
    """SIGSTOP of all its processes, until it was noticed."""
    pids = _pids(site, name)
    told = _silence(site) if name == "broker" else [site.gone_dark(name)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield told
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _silence(site: Site) -> list[Told]:
    """What all three say of a broker that does not answer."""
    return [
        site.log_says("collect", "no contact with Kafka", within=30),
        site.log_says("stream", "no contact with Kafka", within=60),
        site.faces_say("kafka-unreachable", within=30),
    ]


@contextmanager
def broker_killed(site: Site) -> Iterator[list[Told]]:
    """SIGKILL of the broker, which stays away until that was told."""
    told = _silence(site)
    site.broker.kill()
    yield told
    site.broker.start()


@contextmanager
def broker_restarted(site: Site) -> Iterator[list[Told]]:
    """A clean stop and start."""
    site.broker.restart()
    yield [site.nothing(name) for name in site.parts]


# Disks and files


def _disk(site: Site, name: str) -> Path:
    """The file system that a part writes to."""
    folder = {
        "serve": site.history.parent,
        "stream": site.checkpoint.parent,
        "broker": site.broker.data_dir.parent,
    }[name]
    if not folder.is_mount():
        pytest.skip("no file system may be mounted here")
    return folder


@contextmanager
def serve_full(site: Site) -> Iterator[list[Told]]:
    with full(_disk(site, "serve")):
        site.change()
        yield [site.faces_say("history-blocked")]


@contextmanager
def serve_read_only(site: Site) -> Iterator[list[Told]]:
    told = site.ends("serve", str(site.history), "the disk reports an error")
    with read_only(_disk(site, "serve")):
        site.change()
        yield [told]
    _start(site, "serve")


@contextmanager
def stream_disk(
    site: Site, spoil: Callable[[Path], AbstractContextManager[None]], why: str
) -> Iterator[list[Told]]:
    told = site.ends("stream", str(site.checkpoint), why, within=_SPARK_SECONDS)
    with spoil(_disk(site, "stream")):
        site.change()
        yield [told]
    _start(site, "stream")


@contextmanager
def broker_disk(site: Site, spoil: _Spoil) -> Iterator[list[Told]]:
    """Kafka ends when it can't write: what is told is that it is away."""
    told = _silence(site)
    with spoil(_disk(site, "broker")):
        _until_it_fails(site)
        yield told
        site.broker.kill()
    site.broker.start()


def _until_it_fails(site: Site) -> None:
    """The broker is written to until it has ended."""

    def failed() -> bool:
        with suppress(OSError, Refused):
            site.change_once()
        return not site.broker.running

    eventually(failed, timeout=PATIENCE, every=0.2)


@contextmanager
def history_lost(site: Site) -> Iterator[list[Told]]:
    """Removed while it is used."""
    told = site.ends("serve", str(site.history), "was removed or replaced while in use")
    site.history.unlink()
    yield [told]
    _start(site, "serve")


@contextmanager
def history_damaged(site: Site) -> Iterator[list[Told]]:
    """Garbled while nobody uses it; the way out is the one that the message names."""
    _stop(site, "serve")
    told = site.ends("serve", str(site.history), "is damaged", "remove it to build it anew")
    site.history.write_bytes(site.history.read_bytes()[:100] + os.urandom(site.history.stat().st_size - 100))
    site.serve.start(wait=False)
    yield [told]
    site.history.unlink()
    _start(site, "serve")


@contextmanager
def checkpoint_file(site: Site, spoil: Callable[[Path], object], why: str) -> Iterator[list[Told]]:
    """The newest file of the state, while the job does not run; the folder is restored from a copy."""
    _stop(site, "stream")
    told = site.ends("stream", str(site.checkpoint), why, within=_SPARK_SECONDS)
    kept = site.folder / "checkpoint.copy"
    shutil.copytree(site.checkpoint, kept)
    files = sorted(site.checkpoint.glob("state/0/*/*.delta"), key=lambda file: int(file.stem))
    spoil(files[-1])
    _start(site, "stream")
    yield [told]
    shutil.rmtree(site.checkpoint)
    shutil.copytree(kept, site.checkpoint)
    shutil.rmtree(kept)
    _start(site, "stream")


def _garble(file: Path) -> None:
    file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))


@contextmanager
def checkpoint_lost(site: Site) -> Iterator[list[Told]]:
    """The whole folder, while the job runs."""
    told = site.ends("stream", str(site.checkpoint), within=_SPARK_SECONDS)
    shutil.rmtree(site.checkpoint)
    site.change()
    yield [told]
    shutil.rmtree(site.checkpoint, ignore_errors=True)  # as the message says: away, and read all again
    _start(site, "stream")


@contextmanager
def no_files(site: Site) -> Iterator[list[Told]]:
    """The collector has none that could be lost: its place is in the cluster."""
    log = site.collect.log
    descriptors = Path(f"/proc/{site.collect.pid}/fd").iterdir()
    written = {one.readlink() for one in descriptors if _is_written(one)}
    assert {one for one in written if one.is_file()} <= {log}
    yield [Told("collect", "nothing: it keeps no file", lambda: True)]


def _is_written(descriptor: Path) -> bool:
    """Whether it is open for writing: the last octal digit of its flags is how it was opened."""
    info = descriptor.parents[1] / "fdinfo" / descriptor.name
    flags = next(line.split()[1] for line in info.read_text().splitlines() if line.startswith("flags"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


@contextmanager
def place_lost(site: Site) -> Iterator[list[Told]]:
    """The place that the collector goes on from, as after too long a rest: it reads all again."""
    _stop(site, "collect")
    admin = AdminClient({"bootstrap.servers": site.servers})
    group = site.serve.settings.topics.prefix + site.serve.settings.collect.group_id
    admin.delete_consumer_groups([group])[group].result(20)
    _start(site, "collect")
    yield [Told("collect", "nothing: it publishes all again, with the same ids", lambda: True)]


@contextmanager
def segments(site: Site, spoil: Callable[[Path], object]) -> Iterator[list[Told]]:
    """The log files of the diff topic, while the broker is down after a crash."""
    site.written |= {*site.topic_ids()}
    mark = len(site.serve.said())
    site.broker.kill()
    for file in site.broker.data_dir.glob(f"storage/{site.diffs}-*/*.log"):
        if file.stat().st_size:
            spoil(file)
    site.broker.start()

    def told() -> bool:
        return "read again" in site.serve.said()[mark:]

    site.change()
    yield [Told("serve", "log: “ends at … before … read again”", told, 40.0)]


# Topics


def _delete(site: Site, topic: str) -> None:
    AdminClient({"bootstrap.servers": site.servers}).delete_topics([topic])[topic].result(30)


@contextmanager
def diffs_deleted(site: Site) -> Iterator[list[Told]]:
    """After a restart of the broker, which raises the leader epochs that a new topic begins without."""
    site.broker.restart()
    site.change()
    site.complete()
    site.written |= {*site.topic_ids()}
    told = [site.ends("stream", f"topic {site.diffs} was deleted"), site.faces_say("topic-missing")]
    _delete(site, site.diffs)
    yield told
    _start(site, "stream")


@contextmanager
def membership_deleted(site: Site) -> Iterator[list[Told]]:
    """Made again at once, by the command that makes topics; then the choice that the message names."""
    site.broker.restart()
    site.change()
    site.complete()
    site.past.append(site.log())
    told = [site.ends("stream", f"topic {site.membership} was deleted")]
    _delete(site, site.membership)
    eventually(lambda: identify(site.serve.settings.kafka, [site.membership])[site.membership] is None)
    yield told
    ensure_topics(site.serve.settings)
    site.stream.command += ["--on-data-loss", "restart"]
    _start(site, "stream")


# Slow disks, and clocks


@contextmanager
def slow(site: Site, name: str) -> Iterator[list[Told]]:
    """Each write and flush takes 20 ms more."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    calls = "write,pwrite64,fsync,fdatasync"
    attach = [word for pid in _pids(site, name) for word in ("-p", str(pid))]
    command = [
        "strace",
        "-f",
        "-q",
        "-o",
        "/dev/null",
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={calls}:delay_enter=20000",
    ]
    with subprocess.Popen([*command, *attach], stderr=subprocess.DEVNULL) as tracer:
        try:
            count = site.complete()
            site.change()
            site.complete(count)
            site.says(None)
            assert tracer.poll() is None
            yield [site.nothing(name)]
        finally:
            tracer.terminate()


@contextmanager
def clock(site: Site, name: str) -> Iterator[list[Told]]:
    """An hour on and, later, an hour back."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler: apt-get install gcc libc6-dev")
    library, step = site.folder / "clock.so", site.folder / "clock.step"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    step.write_text("0")
    _stop(site, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("CLOCK_STEP", str(step))
        _start(site, name)
    for seconds in ("3600", "0"):
        count = site.complete()
        step.write_text(seconds)
        site.change()
        site.complete(count)
        site.says(None)
    yield [site.nothing(name)]
    _stop(site, name)
    _start(site, name)


def _all() -> Iterable[Case]:
    parts = ("collect", "stream", "serve", "broker")
    yield Case("collect", "full, read-only, lost or damaged files", no_files)
    yield Case("collect", "lost place", place_lost)
    for name in ("collect", "stream", "serve"):
        yield Case(name, "SIGKILL", partial(killed, name=name))
    yield Case("stream", "SIGKILL of the JVM", jvm_killed)
    for name in ("collect", "stream", "serve"):
        yield Case(name, "SIGSTOP, SIGCONT", partial(stopped, name=name))
    yield Case("serve", "full disk", serve_full, during=False)
    yield Case("serve", "read-only disk", serve_read_only)
    yield Case("serve", "lost files", history_lost)
    yield Case("serve", "damaged files", history_damaged)
    yield Case("stream", "full disk", partial(stream_disk, spoil=full, why="No space left"))
    yield Case("stream", "read-only disk", partial(stream_disk, spoil=read_only, why="Read-only file system"))
    lost, garbled = partial(Path.unlink), _garble
    yield Case("stream", "lost file", partial(checkpoint_file, spoil=lost, why="is missing"))
    yield Case("stream", "damaged files", partial(checkpoint_file, spoil=garbled, why="is damaged"))
    yield Case("stream", "lost checkpoint", checkpoint_lost)
    yield Case("broker", "broker gone", broker_killed, during=False)
    yield Case("broker", "broker restarted", broker_restarted)
    yield Case("broker", "SIGSTOP, SIGCONT", partial(stopped, name="broker"), during=False)
    for name in parts:
        yield Case(name, "slow disk", partial(slow, name=name))
    for name in parts:
        yield Case(name, "clock stepped", partial(clock, name=name))
    yield Case("broker", "full disk", partial(broker_disk, spoil=full), during=False)
    yield Case("broker", "read-only disk", partial(broker_disk, spoil=read_only), during=False)
    yield Case("broker", "lost files", partial(segments, spoil=lost))
    yield Case("broker", "damaged files", partial(segments, spoil=garbled))
    yield Case("broker", "diff topic deleted", diffs_deleted)
    yield Case("broker", "membership topic deleted", membership_deleted, during=False)


CASES = tuple(_all())
