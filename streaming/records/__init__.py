"""Events, diffs and their bytes: what stands in the topics."""
