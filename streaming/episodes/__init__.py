"""Episodes: consecutive rounds of a group that belong together, with their kind, members and status.

The package is pure: its input is notes of what happened (:mod:`~streaming.episodes.notes`), its output a state and the
episode's record. The stream makes notes of the rounds that it decides. A reader of the diff topic makes notes of the
diffs (:mod:`~tests.support.diff_episodes`). Both get the same episodes.
"""
