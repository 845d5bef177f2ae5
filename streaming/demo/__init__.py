"""The demo: real consumers that join, leave, crash and rejoin on a real broker."""
