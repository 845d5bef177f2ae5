"""Records of the topics: events, diffs, episodes, incidents, and their encoding."""
