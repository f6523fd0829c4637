"""Benchmarks with contact: robots that thrash about on floors and terrain, a hand with a cube, a tower, a heap."""

from .case import (
    TouchCase as TouchCase,
    load_our_side as load_our_side,
    load_touching as load_touching,
    random_commands as random_commands,
)
from .figures import TouchFigures as TouchFigures
from .ours import OurRollout as OurRollout, Ours as Ours
from .run import run_touching as run_touching
from .scenes import Place as Place
from .single import single_touching as single_touching
