"""MJCF, the format of MuJoCo: what a person would write, with every number exact."""

from .write import write_mjcf as write_mjcf
from .writing import MjcfOptions as MjcfOptions
