"""The demo: real consumers in processes of their own that join, leave, crash and come back on a real broker."""
