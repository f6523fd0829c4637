"""A world of several robots in two files, whose parts MuJoCo numbers in an order that is nobody's own."""

from __future__ import annotations

PART = """
<mujoco>
  <worldbody>
    <body name="r0" pos="-2 0 1"><joint name="j0" axis="0 1 0"/><geom size=".1"/><site name="s0"/></body>
  </worldbody>
  <actuator><motor name="m0" joint="j0"/></actuator>
  <sensor><jointpos name="b0" joint="j0"/><gyro name="b1" site="s0"/></sensor>
</mujoco>
"""
WHOLE = """
<mujoco model="several">
  <include file="part.xml"/>
  <worldbody>
    <geom name="floor" type="plane" size="9 9 1" pos="0 0 -2"/>
    <site name="ground" pos="1 1 1"/>
    <body name="r1" pos="0 0 1">
      <joint name="j1" axis="0 1 0"/><geom size=".1"/><site name="z" pos=".1 0 0"/><site name="a" pos=".2 0 0"/>
    </body>
    <body name="r2" pos="2 0 1"><joint name="j2" axis="0 1 0"/><geom size=".1"/><site name="m" pos=".1 0 0"/></body>
  </worldbody>
  <tendon>
    <fixed name="t2"><joint joint="j2" coef="2"/></fixed>
    <spatial name="across"><site site="z"/><site site="m"/></spatial>
    <fixed name="t1"><joint joint="j1" coef="1"/></fixed>
  </tendon>
  <actuator>
    <motor name="m2" joint="j2"/><motor name="pull" tendon="across"/><motor name="m1" joint="j1"/>
  </actuator>
  <sensor>
    <jointpos name="q2" joint="j2"/><framepos name="p" objtype="site" objname="ground"/><jointpos name="q1" joint="j1"/>
    <tendonpos name="l" tendon="across"/><gyro name="w2" site="m"/><gyro name="w1" site="a"/><clock name="now"/>
  </sensor>
  <equality>
    <joint name="e2" joint1="j2"/><tendon name="e" tendon1="t2" tendon2="t1"/><joint name="e1" joint1="j1"/>
  </equality>
  <keyframe><key name="home" qpos=".1 .2 .3" ctrl="1 2 3 4"/></keyframe>
</mujoco>
"""
