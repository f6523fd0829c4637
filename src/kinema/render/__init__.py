"""Rendering with Warp: batched ray casting of all environments, and a path tracer."""

from .cameras import Camera as Camera, Projection as Projection, frame_box_pose as frame_box_pose, look_at as look_at
from .device_scene import PER_ENV_PROPERTIES as PER_ENV_PROPERTIES, DeviceScene as DeviceScene
from .geometry import Geometry as Geometry, GeometryKind as GeometryKind, mesh_geometry as mesh_geometry
from .images import (
    VIDEO_SUFFIXES as VIDEO_SUFFIXES,
    Mp4Writer as Mp4Writer,
    auto_exposure as auto_exposure,
    can_write_mp4 as can_write_mp4,
    srgb_to_linear as srgb_to_linear,
    tone_map as tone_map,
    write_exr as write_exr,
    write_picture as write_picture,
    write_png as write_png,
    write_video as write_video,
)
from .path_tracer import PathTracedImages as PathTracedImages, PathTracer as PathTracer
from .render_scene import Instance as Instance, LightSource as LightSource, RenderScene as RenderScene, Sky as Sky
from .renderer import IMAGES as IMAGES, Image as Image, Renderer as Renderer
from .studio import STUDIO_EXPOSURE as STUDIO_EXPOSURE, set_up_studio as set_up_studio
from .surfaces import Surface as Surface, make_surface as make_surface, unsupported_features as unsupported_features
