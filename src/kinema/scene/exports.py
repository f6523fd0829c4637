"""Exported names of kinema.scene that few programs need (renderer, added sensors); imported lazily on first access."""

from .cameras import SceneCamera as SceneCamera, visual_entities as visual_entities
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
from .sensor_types import (
    Altimeter as Altimeter,
    ContactSensor as ContactSensor,
    DistanceSensor as DistanceSensor,
    ForceTorque as ForceTorque,
    FrameSensor as FrameSensor,
    Gps as Gps,
    Imu as Imu,
    JointSensor as JointSensor,
    Lidar as Lidar,
    Magnetometer as Magnetometer,
    RayFan as RayFan,
    SensorType as SensorType,
    TactileSensor as TactileSensor,
    TouchSensor as TouchSensor,
)
