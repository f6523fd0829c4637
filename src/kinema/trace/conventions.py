"""What emitted code and the code that launches it agree on."""

from __future__ import annotations

ENTRY = "kinema_run"
"""The function of a module that is called."""
LOOP = "kinema_loop_"
"""What the names of functions start with that are loops; what they do follows."""
UNIFORM = "uniform"
"""The arena of numbers that all environments share."""
N_HEAD = 4
"""Numbers at the beginning of all teams' memory, the first of which counts what they took."""
N_ENTRY = 2
"""Integers of an entry of a list: environment and row."""
STEPS = (1, 2, 3, 5, 8, 12, 18)
"""From how many contacts on an environment is in the next list of those that teams go through."""
N_LISTS = len(STEPS) + 1


def n_ordered(stride: int) -> int:
    """Numbers that the lists take, and how long they are: behind what counts environments, before all teams' memory."""
    return N_LISTS * (1 + stride)
