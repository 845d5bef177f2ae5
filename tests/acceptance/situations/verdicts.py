"""Checks a view's report of a group history."""

from __future__ import annotations

from itertools import pairwise

from streaming.records.episodes import Episode
from tests.acceptance.situations.life import SESSION_MS, RealGroup, Step
from tests.acceptance.situations.stage import LOG, OFFSETS, POLLING
from tests.support.callbacks import missing_callbacks


def faults(life: RealGroup) -> list[str]:
    """Return a line for each wrong report."""
    found = [fault for step in life.steps for view in life.views for fault in wrong(step, view)]
    found += [fault for view in life.views for fault in wrong_incidents(life, view)]
    return found + [fault for view in (LOG, OFFSETS) for fault in missing_assignments(life, view)]


def named(episode: Episode) -> dict[str, set[str]]:
    """Return the client ids of members that joined, left and rejoined."""
    members = episode.members

    def names(ids: list[str]) -> set[str]:
        return {members.names[one].client_id or one for one in ids}

    went = {*members.left, *members.lost, *members.gone}
    return {
        "came": names([one for one in members.joined if one not in went]),
        "went": names([*went]),
        "back": names([one.joined for one in members.replaced]),
    }


def wrong(step: Step, view: str) -> list[str]:
    """Return the wrong reports of a view about a step."""
    told = step.told[view]
    if view == POLLING and not told and not step.came | step.went | step.back:
        return []  # joined and left between two answers, and nothing else changed
    if step.then and len(told) == 2:
        second = (step.then,) if view == LOG else (step.then, "unknown")
        if told[0].kind == step.kind and told[1].kind in second:
            return []
    if len(told) != 1:
        return [f"{view}: {step.kind} is {len(told)} episodes: {[one.story for one in told]}"]
    [episode] = told
    said = f"{view}: {step.kind} is {episode.kind}{'' if episode.sure else '?'}"
    said += f" {named(episode)}: {episode.story} {[(one.kind, one.reason[:90]) for one in episode.evidence]}"
    found = []
    right = episode.kind == step.kind or (
        (view != LOG or not step.provable)
        and (episode.kind == "unknown" or (episode.kind in step.may and not episode.sure))
    )
    wanted = {"came": step.came, "went": step.went, "back": step.back}
    if not right or episode.status != "settled":
        found.append(said)
    elif episode.kind != "unknown" and named(episode) != wanted:
        found.append(f"{said}; wanted {wanted}")
    return found


def missing_assignments(life: RealGroup, view: str) -> list[str]:
    """Return members whose callbacks do not all appear in the diffs, in order."""
    found = missing_callbacks(life.views[view].rounds(life.group), life.views[view].names, life.callbacks())
    return [f"{view}: {one}" for one in found]


def wrong_incidents(life: RealGroup, view: str) -> list[str]:
    """Return the wrong incidents of a view: a storm is closed in the end; usually there is no other."""
    if not life.kills:
        kinds, wanted = [one.kind for one in life.incidents(view)], [*life.alarms]
        # Kinds that only the coordinator's log shows may be missing in other views; no view may add one.
        right = kinds == wanted if view == LOG else not {*kinds} - {*wanted}
        stories = [f"{one.kind}: {one.story}" for one in life.incidents(view)]
        return [] if right else [f"{view}: incidents {stories}; wanted {wanted}"]
    storms = [step for step in life.steps if step.kind == "storm"]
    found = life.incidents(view)
    if [one.kind for one in found] != ["storm"]:
        return [f"{view}: a storm is {[one.story for one in found]}"]
    [incident], [episode] = found, storms[0].told[view]
    gaps = [1000 * (after - before) for before, after in pairwise(life.kills)]
    again = episode.repeated
    names = {episode.members.names[one].client_id for one in incident.member_ids}
    # Two answers by polling may have a kill and the new member between them.
    missed = 1 if view == POLLING else 0
    right = (
        (incident.status, incident.times, names) == ("closed", 1, {"b"})
        and again is not None
        and len(life.kills) - missed <= again.times <= len(life.kills)
        and again.period_ms is not None
        and min(gaps) - SESSION_MS < again.period_ms < max(gaps) + SESSION_MS
    )
    return [] if right else [f"{view}: {incident}, {again}, kills {gaps} ms apart"]
