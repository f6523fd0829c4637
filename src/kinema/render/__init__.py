"""L4: images: rays against a stage of shapes, in all environments at once, and paths of light; on Warp, no OpenGL."""

from .cameras import Camera as Camera, Projection as Projection, framing as framing, look_at as look_at
from .files import (
    VIDEO_SUFFIXES as VIDEO_SUFFIXES,
    can_write_mp4 as can_write_mp4,
    write_png as write_png,
    write_video as write_video,
)
from .geometry import Geometry as Geometry, Kind as Kind, triangles as triangles
from .placed import PER_ENV as PER_ENV, Placed as Placed
from .renderer import IMAGES as IMAGES, Image as Image, Renderer as Renderer
from .stage import Instance as Instance, Lamp as Lamp, Sky as Sky, Stage as Stage
from .studio import STUDIO_EXPOSURE as STUDIO_EXPOSURE, furnish as furnish
from .surfaces import Surface as Surface, surface_of as surface_of, unused_maps as unused_maps
from .tone import auto_exposure as auto_exposure, developed as developed
from .tracer import PathTracer as PathTracer, Traced as Traced
