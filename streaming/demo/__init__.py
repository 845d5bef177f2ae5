"""The demo, in which real consumers join, leave, crash and rejoin on a real broker."""
