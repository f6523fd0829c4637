"""L3: a description becomes a model of flat arrays, by an ordered list of passes."""

from .fluid import Medium as Medium
from .hollow import NONCONVEX as NONCONVEX
from .options import Switches as Switches, all_options as all_options, switches_of as switches_of
from .passes import Part as Part, compile_model as compile_model
