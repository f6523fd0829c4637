"""Robots on a floor in MuJoCo and in Kinema: where they touch, what that does, field by field and state by state."""

from .compared import TouchParity as TouchParity, of_laws as of_laws, touch_parity as touch_parity
from .states import poses_near_floor as poses_near_floor, wild_run as wild_run
from .touching import matched as matched, ours_of as ours_of, theirs_of as theirs_of
