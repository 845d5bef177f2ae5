"""Rounds of a group that belong together, as episodes: what it was, who caused it, whether it is over.

Pure: notes of what happened go in (:mod:`~streaming.episodes.seen`), a state and the episode's record come out. The
stream feeds it as it decides rounds, a reader of the topic with the diffs it has read
(:mod:`~streaming.episodes.reading`); both get the same episodes.
"""
