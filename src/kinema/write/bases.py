"""What holds a robot's base: one rule for all writers.

A file says of it what the description says. Where that is nothing, the file says nothing either, and a note that only
Kinema reads keeps it so; the report then tells what the format takes that for.
"""

from __future__ import annotations

from kinema.description import Base, Robot, World, with_base
from kinema.foundation import WriteError

BASES = ("auto", "fixed", "free", "unspecified", "world")
"""What can be asked for; see `kinema.write`."""
WHAT = "what holds its base"


def decided(described: Robot | World, base: str) -> Robot | World:
    """The description with the base that the user asks for."""
    if base not in BASES:
        raise WriteError(f"base is {base!r}; it can be {', '.join(map(repr, BASES))}")
    return described if base in ("auto", "world") else with_base(described, Base(base))


def assumed(taken_for: str) -> str:
    """One line on what a format makes of a base of which nothing is said."""
    return f"its file does not say; {taken_for}; base= (--base fixed or free) decides"
