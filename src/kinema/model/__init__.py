"""L1: the flat arrays of what is simulated: names, shapes, units. No algorithms."""

from .model import (
    MOTION_SIZES as MOTION_SIZES,
    ActuatorsInfo as ActuatorsInfo,
    CouplingsInfo as CouplingsInfo,
    DofsInfo as DofsInfo,
    EntityInfo as EntityInfo,
    FramesInfo as FramesInfo,
    JointsInfo as JointsInfo,
    KeyframesInfo as KeyframesInfo,
    LinksInfo as LinksInfo,
    Model as Model,
    ModelOptions as ModelOptions,
    Motion as Motion,
    TendonsInfo as TendonsInfo,
    TiesInfo as TiesInfo,
)
from .paths import PathsInfo as PathsInfo
