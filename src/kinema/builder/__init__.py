"""Model builder: turns robot and world descriptions into a `Model` of flat arrays by an ordered sequence of passes."""

from .collision_shapes import NONCONVEX_APPROXIMATIONS as NONCONVEX_APPROXIMATIONS
from .equalities import disabled_equalities as disabled_equalities
from .fluid import Medium as Medium
from .options import OptionFlags as OptionFlags, merged_options as merged_options, option_flags as option_flags
from .pipeline import EntitySpec as EntitySpec, build_model as build_model
