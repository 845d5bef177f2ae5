"""All fault tests in the order in which they run: each one starts from the state that it needs."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from tests.faults.case import Case
from tests.faults.cases import checkpoint, clocks, disks, processes, topics
from tests.support.disks import full, read_only

_ALL_COMPONENTS = ("collect", "stream", "serve", "broker")
_PARTS = _ALL_COMPONENTS[:3]
_DELETE_FILE, _FLIP_BITS = partial(Path.unlink), disks.flip_bits


def _process_cases() -> Iterable[Case]:
    for name in _PARTS:
        yield Case(name, "SIGKILL", partial(processes.kill_process, name=name))
    yield Case("stream", "SIGKILL of the JVM", processes.jvm_killed)
    for name in _PARTS:
        yield Case(name, "SIGSTOP, SIGCONT", partial(processes.stopped, name=name))
    yield Case("broker", "gone", processes.kill_broker, active=False)
    yield Case("broker", "restarted", processes.restart_broker)
    yield Case("broker", "SIGSTOP, SIGCONT", partial(processes.stopped, name="broker"), active=False)


def _disks_and_files() -> Iterable[Case]:
    yield Case("collect", "full, read-only, lost or damaged files", disks.delete_recreatable_files)
    yield Case("collect", "lost place", disks.delete_collector_offsets)
    yield Case("serve", "full disk", disks.fill_history_disk, active=False)
    refused = partial(disks.break_disk, name="serve", damage=read_only, words="the disk is read-only")
    yield Case("serve", "read-only disk", refused)
    yield Case("serve", "lost files", disks.delete_history)
    yield Case("serve", "damaged files", disks.history_damaged)
    yield Case("stream", "full disk", partial(disks.break_disk, name="stream", damage=full, words="No space left"))
    refused = partial(disks.break_disk, name="stream", damage=read_only, words="Read-only file system")
    yield Case("stream", "read-only disk", refused)
    for name in _ALL_COMPONENTS:
        yield Case(name, "slow disk", partial(disks.slow, name=name))


def _checkpoint() -> Iterable[Case]:
    lost = partial(checkpoint.files, fault="lost file", damage=_DELETE_FILE, reports=checkpoint.REPORTS_OF_LOST_FILES)
    yield Case("stream", "lost files", lost)
    damaged = partial(
        checkpoint.files, fault="damaged file", damage=_FLIP_BITS, reports=checkpoint.REPORTS_OF_DAMAGED_FILES
    )
    yield Case("stream", "damaged files", damaged)
    yield Case("stream", "lost files that Spark makes again", checkpoint.recreatable_files_lost)
    yield Case("stream", "checkpoint lost at work", checkpoint.delete_folder_while_running)
    yield Case("stream", "checkpoint lost at rest", checkpoint.delete_folder_while_stopped)
    yield Case("stream", "checkpoint damaged", checkpoint.damage_all_files)


def _clock_cases() -> Iterable[Case]:
    for name in _ALL_COMPONENTS:
        yield Case(name, "clock set an hour on, and back", partial(clocks.set_clock_an_hour_off, name=name))
    for name in ("collect", "stream"):
        yield Case(name, "clock set a day on", partial(clocks.set_clock_a_day_ahead, name=name))


def _broker() -> Iterable[Case]:
    yield Case("broker", "full disk", partial(disks.broker_disk, damage=full), active=False)
    yield Case("broker", "read-only disk", partial(disks.broker_disk, damage=read_only), active=False)
    yield Case("broker", "diff topic's files lost", partial(disks.damage_diff_topic, damage=_DELETE_FILE))
    yield Case("broker", "diff topic's files damaged", partial(disks.damage_diff_topic, damage=_FLIP_BITS))
    yield Case(
        "broker", "membership topic's files lost", partial(disks.membership_damaged, damage=_DELETE_FILE), active=False
    )
    yield Case(
        "broker", "membership topic's files damaged", partial(disks.membership_damaged, damage=_FLIP_BITS), active=False
    )
    yield Case("broker", "diff topic deleted", topics.delete_diff_topic)
    yield Case("broker", "diff topic deleted and made again", topics.recreate_diff_topic)
    yield Case("broker", "membership topic deleted, and made again", topics.delete_membership_topic)


CASES = (*_process_cases(), *_disks_and_files(), *_checkpoint(), *_clock_cases(), *_broker())
