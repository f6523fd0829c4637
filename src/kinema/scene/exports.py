"""Exported names of kinema.scene that depend on the renderer; imported lazily on first access."""

from .render_stage import (
    VisualEntity as VisualEntity,
    build_stage as build_stage,
    cameras_of_description as cameras_of_description,
    default_lamps as default_lamps,
)
from .rendering import (
    DescriptionRenderer as DescriptionRenderer,
    PictureOptions as PictureOptions,
    SceneCameras as SceneCameras,
    link_pose_arrays as link_pose_arrays,
)
