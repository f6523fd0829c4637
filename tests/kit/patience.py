"""How long a test waits."""

HANG = 60.0
"""Seconds after which something hangs; tests measure no speed, machines differ."""
