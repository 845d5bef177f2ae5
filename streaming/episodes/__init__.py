"""Episodes: consecutive rounds of a group that belong together, with their kind, members and status.

Pure. Notes of what happened go in (:mod:`~streaming.episodes.notes`), a state and the episode's record come out.
The stream feeds it as it decides rounds. A reader of the topic feeds it with the diffs
(:mod:`~tests.support.diff_episodes`). Both get the same episodes.
"""
