"""Questions to a whole deployment: is it set up, does it hold what its log says."""
