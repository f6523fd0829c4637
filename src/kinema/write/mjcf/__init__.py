"""MJCF writer (the XML format of MuJoCo)."""

from .context import MjcfOptions as MjcfOptions
from .writer import write_mjcf as write_mjcf
