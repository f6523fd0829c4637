"""Stand-ins for the two models that old Gazebo worlds include without shipping them."""

from __future__ import annotations

_SUN = """<sdf version="1.9">
  <light type="directional" name="sun">
    <pose>0 0 10 0 0 0</pose>
    <direction>-0.5 0.1 -0.9</direction>
    <diffuse>0.8 0.8 0.8 1</diffuse>
    <cast_shadows>true</cast_shadows>
  </light>
</sdf>"""

_GROUND = """<sdf version="1.9">
  <model name="ground_plane">
    <static>true</static>
    <link name="link">
      <inertial><mass>1</mass><inertia/></inertial>
      <collision name="collision"><geometry><plane><size>100 100</size></plane></geometry></collision>
      <visual name="visual"><geometry><plane><size>100 100</size></plane></geometry></visual>
    </link>
  </model>
</sdf>"""

BUILTIN = {"sun": _SUN, "ground_plane": _GROUND}
"""SDFormat text by the name of the model."""
