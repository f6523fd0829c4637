"""How much memory a team has near at hand, and how many teams a multiprocessor runs at a time.

What is near at hand is taken from the cache of a multiprocessor, in steps. One step less of it, and a team's other
memory, its tables and what threads left for it stay in the cache: Cassie's constraints take 375 us instead of 440, with
the records of six contacts near instead of eight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kinema.trace import Part, Room, shortened, whole

from .gpu_code import QUARTERS, STEPS, WARP, n_blocks

SHARED_BYTES = 48 * 1024
"""Memory that the threads of a block share, on every GPU."""
MOST_TEAMS, FEW_TEAMS = 24, 16
"""That a multiprocessor runs at a time: of more, each has too few registers; of few, each counts. Of 20 for a go2 two
may go: with fewer contacts near it would be slower."""
MOST_SHORTER = 8
"""Items less that lists may have near at hand."""


@dataclass(frozen=True, slots=True, eq=False)
class TeamRoom:
    """What a team is compiled with."""

    part: Part
    room: Room
    at_a_time: int | None
    """How many teams a multiprocessor has to have registers for; None leaves that to the assembler."""


def room_of_team(part: Part, size: int) -> TeamRoom:
    """Its memory, near at hand where there is room for it, for numbers of so many bytes."""
    if _near_bytes(part, size) > SHARED_BYTES:
        return TeamRoom(part, _room(part, shared=False), None)
    together = n_blocks(_near_bytes(part, size), STEPS[-1])
    teams = min(together - together % QUARTERS, MOST_TEAMS) or together
    if teams <= FEW_TEAMS:
        candidates = (replace(part, program=shortened(part.program, by)) for by in range(MOST_SHORTER + 1))
        part = next((own for own in candidates if n_blocks(_near_bytes(own, size), STEPS[-2]) >= teams), part)
    return TeamRoom(part, _room(part, shared=True), teams)


def _near_bytes(part: Part, size: int) -> int:
    return whole(max(part.program.n_scratch, 1)) * size


def _room(part: Part, *, shared: bool) -> Room:
    return Room(WARP, whole(max(part.program.n_scratch, 1)), whole(part.n_far), shared)
