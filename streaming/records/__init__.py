"""Events, diffs and their bytes: the records of the topics."""
