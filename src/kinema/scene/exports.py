"""Exported names of kinema.scene that depend on the renderer; imported lazily on first access."""

from .render_scene import (
    VisualEntity as VisualEntity,
    build_render_scene as build_render_scene,
    cameras_of_description as cameras_of_description,
    default_lights as default_lights,
)
from .rendering import (
    DescriptionRenderer as DescriptionRenderer,
    PictureOptions as PictureOptions,
    SceneCameras as SceneCameras,
    link_pose_arrays as link_pose_arrays,
)
