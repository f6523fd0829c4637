"""All that the package offers beyond what `__init__` imports itself: pictures of scenes."""

from .pictures import Portrait as Portrait, Style as Style
from .seen import SceneCameras as SceneCameras, link_rows as link_rows
from .visual_lights import cameras_of as cameras_of, default_lamps as default_lamps
from .visuals import Shown as Shown, stage_of as stage_of
