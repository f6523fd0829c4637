"""Example tasks by name."""

from collections.abc import Callable

from ..terms import Task
from .cartpole import cartpole
from .reach import reach
from .walk import walk, walk_rough

TASKS: dict[str, Callable[[], Task]] = {
    "cartpole": cartpole,
    "reach": reach,
    "walk": walk,
    "walk-rough": walk_rough,
}
"""What makes each of them."""
