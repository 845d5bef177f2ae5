"""Episodes: consecutive rounds of a group that belong together, with their kind, members and status.

The package is pure code. Its input is one note per rebalance round (:mod:`~streaming.episodes.notes`); its output is a
state and the episode's record. The stream builds the notes from its own rounds, tests build them from published diffs
(:mod:`~tests.support.diff_episodes`). The stream and the tests get the same episodes.
"""
