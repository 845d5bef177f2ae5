"""Compares each monitor's episodes and incidents of a group with the changes that the test made to the group."""

from itertools import pairwise

from streaming.records.episodes import Episode
from tests.acceptance.situations.member_kind import SESSION_MS
from tests.acceptance.situations.real_group import RealGroup, Step
from tests.acceptance.situations.stage import LOG, OFFSETS, POLLING
from tests.support.callbacks import missing_callbacks


def wrong_kinds(group: RealGroup) -> list[str]:
    """Return a line for each wrong report about the group, in any of its data sources."""
    lines = [fault for step in group.steps for view in group.views for fault in report_errors(step, view)]
    lines += [fault for view in group.views for fault in unexpected_incidents(group, view)]
    return lines + [fault for view in (LOG, OFFSETS) for fault in missing_assignments(group, view)]


def named(episode: Episode) -> dict[str, set[str]]:
    """Return the client ids of members that joined, of members that left, and of members that rejoined."""
    members = episode.members

    def names(ids: list[str]) -> set[str]:
        return {members.names[member_id].client_id or member_id for member_id in ids}

    left = {*members.left, *members.lost, *members.gone}
    return {
        "joined": names([member_id for member_id in members.joined if member_id not in left]),
        "left": names([*left]),
        "rejoined": names([replacement.joined for replacement in members.replaced]),
    }


def report_errors(step: Step, view: str) -> list[str]:
    """Return a line for each error in the episodes that the data source ``view`` reports for one change of a group."""
    episodes = step.episodes[view]
    if view == POLLING and not episodes and not step.joined | step.left | step.rejoined:
        return []  # joined and left between two polls, and nothing else changed
    if step.expected_second_kind and len(episodes) == 2:
        second = (step.expected_second_kind,) if view == LOG else (step.expected_second_kind, "unknown")
        if episodes[0].kind == step.kind and episodes[1].kind in second:
            return []
    if len(episodes) != 1:
        return [f"{view}: {step.kind} is {len(episodes)} episodes: {[episode.story for episode in episodes]}"]
    [episode] = episodes
    description = f"{view}: {step.kind} is {episode.kind}{'' if episode.sure else '?'}"
    description += (
        f" {named(episode)}: {episode.story} {[(evidence.kind, evidence.reason[:90]) for evidence in episode.evidence]}"
    )
    lines = []
    is_kind_right = episode.kind == step.kind or (
        (view != LOG or not step.is_provable)
        and (episode.kind == "unknown" or (episode.kind in step.unsure_kinds and not episode.sure))
    )
    wanted = {"joined": step.joined, "left": step.left, "rejoined": step.rejoined}
    if not is_kind_right or episode.status != "settled":
        lines.append(description)
    elif episode.kind != "unknown" and named(episode) != wanted:
        lines.append(f"{description}; wanted {wanted}")
    return lines


def missing_assignments(group: RealGroup, view: str) -> list[str]:
    """Return a line for each assignment that a member's callback reported and the diffs of the source ``view`` lack."""
    missing = missing_callbacks(group.views[view].rounds(group.group_id), group.views[view].names, group.callbacks())
    return [f"{view}: {callback}" for callback in missing]


def unexpected_incidents(group: RealGroup, view: str) -> list[str]:
    """Return a text if the incidents that the source ``view`` reported are not the expected ones."""
    if not group.kill_times:
        kinds, wanted = [incident.kind for incident in group.incidents(view)], [*group.expected_incidents]
        # Kinds that only the coordinator's log shows may be missing in other views; no view may add one.
        are_kinds_right = kinds == wanted if view == LOG else not {*kinds} - {*wanted}
        stories = [f"{incident.kind}: {incident.story}" for incident in group.incidents(view)]
        return [] if are_kinds_right else [f"{view}: incidents {stories}; wanted {wanted}"]
    storm_steps = [step for step in group.steps if step.kind == "storm"]
    incidents = group.incidents(view)
    if [incident.kind for incident in incidents] != ["storm"]:
        return [f"{view}: a storm is {[incident.story for incident in incidents]}"]
    [incident], [episode] = incidents, storm_steps[0].episodes[view]
    gaps = [1000 * (after - before) for before, after in pairwise(group.kill_times)]
    again = episode.repeated
    names = {episode.members.names[member_id].client_id for member_id in incident.member_ids}
    # Between two polls a member may be killed and replaced.
    allowed_misses = 1 if view == POLLING else 0
    are_kinds_right = (
        (incident.status, incident.times, names) == ("closed", 1, {"b"})
        and again is not None
        and len(group.kill_times) - allowed_misses <= again.times <= len(group.kill_times)
        and again.period_ms is not None
        and min(gaps) - SESSION_MS < again.period_ms < max(gaps) + SESSION_MS
    )
    return [] if are_kinds_right else [f"{view}: {incident}, {again}, kills {gaps} ms apart"]
