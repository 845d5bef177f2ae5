"""A checkpoint is only used for the job it belongs to."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from streaming.spark.checkpoint import NAME, Card, CheckpointOfAnotherJob, TopicRecreated, claim, grow, held
from streaming.spark.damage import CheckpointDamaged, CheckpointUnusable
from streaming.spark.state_store import StateStore

CARD = Card("cluster", "membership", "id-1", 16)


def test_a_fresh_folder_is_claimed_and_claimed_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checkpoint"
    claim(str(folder), CARD, "stop")
    claim(str(folder), CARD, "stop")
    assert [path.name for path in folder.iterdir()] == [NAME]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("topic", "other", "belongs to topic membership, not other"),
        ("cluster_id", "other", "belongs to cluster cluster, not other"),
        ("buckets", 4, "was made with --buckets 16"),
        ("version", 1, "has the layout of another release"),
        (
            "state_store",
            "rocksdb",
            "keeps its state in --state-store memory; leave .* `stream resize --state-store rocksdb`",
        ),
        ("state", 0, r"a newer release has written to it \(state of version 4, this release reads up to 0\)"),
    ],
)
def test_another_jobs_checkpoint_is_refused(tmp_path: Path, field: str, value: object, message: str) -> None:
    claim(str(tmp_path), CARD, "stop")
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(CheckpointOfAnotherJob, match=message) as refused:
        claim(str(tmp_path), structs.replace(CARD, **{field: value}), "restart")
    assert refused.value.exit_status == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {NAME: before}


@pytest.mark.parametrize(("known", "kept"), [("rocksdb", "rocksdb"), (None, "memory")])
def test_the_state_stays_where_it_is_when_nobody_says(
    tmp_path: Path, known: StateStore | None, kept: StateStore
) -> None:
    claim(str(tmp_path), structs.replace(CARD, state_store=known), "stop")
    left = structs.replace(CARD, state_store=None)
    assert claim(str(tmp_path), left, "stop").state_store == kept
    assert claim(str(tmp_path), left, "stop").state_store == kept


def test_a_card_of_before_there_was_a_choice_is_of_memory(tmp_path: Path) -> None:
    card = msgspec.to_builtins(CARD)
    del card["stateStore"]
    (tmp_path / NAME).write_bytes(msgspec.json.encode(card))
    assert claim(str(tmp_path), structs.replace(CARD, state_store=None), "stop") == CARD
    with pytest.raises(CheckpointOfAnotherJob, match="keeps its state in --state-store memory"):
        claim(str(tmp_path), structs.replace(CARD, state_store="rocksdb"), "stop")


def test_what_this_release_may_write_is_noted_before_it_writes(tmp_path: Path) -> None:
    claim(str(tmp_path), structs.replace(CARD, state=0), "stop")
    claim(str(tmp_path), CARD, "stop")
    with pytest.raises(CheckpointOfAnotherJob, match="newer release"):
        claim(str(tmp_path), structs.replace(CARD, state=0), "stop")


def test_a_new_topic_of_the_same_name_stops_with_the_choice(tmp_path: Path) -> None:
    claim(str(tmp_path), CARD, "stop")
    with pytest.raises(TopicRecreated, match=r"restart sets the checkpoint aside.*continue keeps"):
        claim(str(tmp_path), structs.replace(CARD, topic_id="id-2"), "stop")


def test_continue_keeps_the_checkpoint_and_restart_sets_it_aside(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    claim(str(folder), CARD, "stop")
    (folder / "offsets").mkdir()
    claim(str(folder), structs.replace(CARD, topic_id="id-2"), "continue")
    assert (folder / "offsets").is_dir()
    claim(str(folder), structs.replace(CARD, topic_id="id-3"), "restart")
    assert [path.name for path in folder.iterdir()] == [NAME]
    (aside,) = (path for path in tmp_path.iterdir() if path != folder)
    assert (aside / "offsets").is_dir()


def test_a_foreign_spark_checkpoint_and_a_damaged_card_are_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    either = f"without {NAME}. If it is another program's, name another folder; if it is ours, .* Restore the"
    with pytest.raises(CheckpointOfAnotherJob, match=either):
        claim(str(tmp_path), CARD, "stop")
    (tmp_path / NAME).write_text("{")
    with pytest.raises(CheckpointDamaged, match=f"{NAME} is damaged. Restore the folder from a copy"):
        claim(str(tmp_path), CARD, "stop")
    for impossible in ({"buckets": -1}, {"buckets": 2**40}, {"partitions": -1}, {"state_store": "disk"}):
        (tmp_path / NAME).write_bytes(msgspec.json.encode(structs.replace(CARD, **impossible)))
        with pytest.raises(CheckpointDamaged, match=f"{NAME} is damaged"):
            claim(str(tmp_path), CARD, "stop")


def test_a_url_is_taken_as_it_is(tmp_path: Path) -> None:
    claim("s3a://bucket/checkpoint", CARD, "stop")
    assert list(tmp_path.iterdir()) == []


def test_a_topic_that_grew_is_read_as_before_until_it_is_said_otherwise(tmp_path: Path) -> None:
    four = structs.replace(CARD, partitions=4)
    assert claim(str(tmp_path), four, "stop") == four
    assert claim(str(tmp_path), structs.replace(CARD, partitions=8), "stop") == four
    grow(str(tmp_path), structs.replace(CARD, partitions=8))
    assert claim(str(tmp_path), structs.replace(CARD, partitions=8), "stop").partitions == 8


@pytest.mark.parametrize("write", [partial(claim, on_data_loss="stop"), grow])
def test_a_file_that_can_not_be_written_is_named(tmp_path: Path, write: Callable[..., object]) -> None:
    part = tmp_path / f".{NAME}.part"
    part.mkdir()
    with pytest.raises(CheckpointUnusable, match=re.escape(f"{part}: Is a directory")):
        write(str(tmp_path), CARD)


def test_a_card_that_does_not_say_how_many_partitions_takes_the_topics(tmp_path: Path) -> None:
    claim(str(tmp_path), CARD, "stop")
    assert claim(str(tmp_path), structs.replace(CARD, partitions=8), "stop").partitions == 8


@pytest.mark.parametrize("replaced", [False, True])
def test_a_checkpoint_that_is_held_is_missed_when_it_is_gone_or_another(
    tmp_path: Path, replaced: bool
) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    told = f"--checkpoint {folder}: it was removed or replaced while in use. Restore the folder from a copy"
    with held(str(folder)) as look:
        look()
        folder.rename(tmp_path / "aside")
        if replaced:
            shutil.copytree(tmp_path / "aside", folder)
        with pytest.raises(CheckpointDamaged, match=told):
            look()
    with held("s3a://bucket/checkpoint") as look:
        look()


def test_a_file_system_without_locks_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with held(str(tmp_path)) as look:
        look()
    (told,) = caplog.messages
    assert told == (
        f"--checkpoint {tmp_path}: its file system has no locks (No locks available): "
        "see to it that no second job uses it"
    )
