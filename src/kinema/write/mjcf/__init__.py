"""MJCF writer (the XML format of MuJoCo)."""

from .writer import write_mjcf as write_mjcf
