"""Small MJCF models that between them say everything the format can."""

from __future__ import annotations

BALL = '<geom size=".1"/>'
INERTIAL = '<inertial mass="2" pos=".1 .2 .3" fullinertia="1 2 2.5 .1 .2 .3"/>'

_ARM = f"""
  <worldbody>
    <geom name="floor" type="plane" size="2 3 .1"/>
    <site name="ground" pos="0 0 .1"/>
    <body name="a" pos=".1 .2 .3" euler="10 20 30">{INERTIAL}
      <joint name="j" axis="0 1 1" pos=".1 0 0" range="-60 50" damping="1 2 3" stiffness="4 5" springref="10" ref="5"/>
      <geom name="ga" type="box" size=".1 .2 .3"/><site name="sa" pos="0 0 .4" euler="1 2 3"/>
      <camera name="eye" pos="0 0 1"/>
      <body name="b" pos="0 0 1">{INERTIAL}
        <joint name="k" type="slide" axis="1 0 0" range="-1 2" actuatorfrcrange="-3 5" springyield="2" stiffness="1"/>
        <geom name="gb" type="sphere" size=".2"/><site name="sb" type="box" size=".1 .2 .3" pos=".1 0 0"/>
        <body name="c" pos="0 1 0">{INERTIAL}
          <joint name="ball" type="ball" range="0 70" damping=".5" armature=".1"/>
          <geom name="gc" type="cylinder" size=".1 .2"/><site name="sc"/>
        </body>
      </body>
    </body>
    <body name="free" pos="3 0 1" quat="1 2 3 4"><freejoint name="root"/>{INERTIAL}
      <geom name="gf" type="capsule" size=".1 .3"/><site name="sf"/></body>
  </worldbody>
"""

ACTUATORS = f"""
<mujoco model="actuators">
  <compiler angle="degree"/>{_ARM}
  <tendon>
    <fixed name="t"><joint joint="j" coef="1"/><joint joint="k" coef="-2"/></fixed>
    <spatial name="s"><site site="sa"/><site site="sb"/></spatial>
  </tendon>
  <actuator>
    <motor name="motor" joint="j" gear="3" ctrlrange="-1 2" forcerange="-4 5" group="2"/>
    <position name="position" joint="k" kp="30" kv="2" timeconst=".1" ctrlrange="-1 1"/>
    <position name="plain" joint="k" kp="30"/>
    <position name="damped" joint="k" kp="30" dampratio="1" inheritrange=".5"/>
    <velocity name="velocity" tendon="t" kv="3"/>
    <intvelocity name="intvelocity" joint="k" kp="20" actrange="-1 1"/>
    <damper name="damper" joint="k" kv="2" ctrlrange="0 2"/>
    <cylinder name="cylinder" tendon="s" timeconst=".2" area="2" bias="1 2 3"/>
    <muscle name="muscle" tendon="s" lengthrange=".1 2" force="100" timeconst=".02 .03"/>
    <adhesion name="adhesion" body="b" ctrlrange="0 1" gain="3"/>
    <general name="general" site="sa" refsite="sb" gear="1 2 3 4 5 6" gaintype="affine" gainprm="1 2 3"
             biastype="affine" biasprm="4 5 6" dyntype="filter" dynprm=".3" actearly="true" actlimited="true"
             actrange="-1 1"/>
    <general name="servo" joint="j" gainprm="10" biastype="affine" biasprm="0 -10 -1"/>
    <general name="parent" jointinparent="ball" gear="0 1 0"/>
    <motor name="crank" cranksite="sa" slidersite="sb" cranklength=".3"/>
    <general name="user" joint="j" dyntype="user" actdim="3" gaintype="user" biastype="user"/>
    <motor name="late" joint="j" delay=".01" nsample="4" interp="linear" user="1 2"/>
    <motor joint="j" armature=".1" damping=".2"/>
    <orientation name="turn" joint="ball" kp="3" kv="1"/>
    <orientation name="turn2" site="sa" refsite="sb" kp="3" kv="1" input="quat"/>
    <pid name="pid" joint="j" kp="3" ki="2" kv="1" imax="3"/>
    <pid name="pid2" joint="j" kp="3" ki="2" kv="1" input="pos vel ff" posrange="-1 1" velrange="-2 2" ffrange="-3 3"/>
    <dcmotor name="dc" joint="j" motorconst="1" resistance="2" inductance=".1"/>
  </actuator>
  <keyframe>
    <key name="home" qpos=".1 .2 1 0 0 0 3 4 5 1 0 0 0" qvel="1 2 3 4 5 6 7 8 9 10 11" time="2"
         ctrl="1 2 3 4 5 6 1 8 9 1 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30"/>
    <key qpos="0 0 1 0 0 0 3 4 5 1 0 0 0"/>
  </keyframe>
</mujoco>
"""

SENSORS = f"""
<mujoco model="sensors">
  <compiler angle="degree"/>
  <option><flag energy="enable"/></option>{_ARM}
  <tendon><fixed name="t" range="-1 1"><joint joint="j" coef="1"/></fixed></tendon>
  <actuator><motor name="m" joint="j"/></actuator>
  <sensor>
    <touch name="touch" site="sb" cutoff="3" noise=".1"/>
    <accelerometer name="acc" site="sa" delay=".01" nsample="3" interp="linear" interval=".01"/>
    <velocimeter site="sa"/><gyro site="sa"/><force site="sa"/><torque site="sa"/><magnetometer site="sa"/>
    <rangefinder site="sa" data="dist normal"/><camprojection site="sa" camera="eye"/>
    <jointpos joint="j"/><jointvel joint="k"/><jointactuatorfrc joint="j"/><ballquat joint="ball"/>
    <ballangvel joint="ball"/><jointlimitpos joint="j"/><jointlimitvel joint="j"/><jointlimitfrc joint="j"/>
    <tendonpos tendon="t"/><tendonvel tendon="t"/><tendonactuatorfrc tendon="t"/><tendonlimitpos tendon="t"/>
    <actuatorpos actuator="m"/><actuatorvel actuator="m"/><actuatorfrc actuator="m"/>
    <framepos name="fp" objtype="body" objname="a" reftype="site" refname="sb"/>
    <framequat objtype="xbody" objname="b"/><framexaxis objtype="geom" objname="gc"/>
    <frameyaxis objtype="camera" objname="eye"/><framezaxis objtype="site" objname="sa"/>
    <framelinvel objtype="site" objname="sa" reftype="body" refname="free"/><frameangvel objtype="body" objname="c"/>
    <framelinacc objtype="site" objname="sa"/><frameangacc objtype="site" objname="sa"/>
    <subtreecom body="a"/><subtreelinvel body="a"/><subtreeangmom body="b"/>
    <insidesite site="sb" objtype="geom" objname="gf"/>
    <distance geom1="ga" body2="free" cutoff="1"/><normal geom1="ga" geom2="gf" cutoff="1"/>
    <fromto body1="a" body2="free" cutoff="1"/>
    <contact geom1="ga" subtree2="free" num="3" data="found force" reduce="mindist"/>
    <contact site="sb" body2="world"/><contact/>
    <e_potential/><e_kinetic/><clock user="1 2 3"/>
    <user name="mine" dim="3" needstage="vel" datatype="axis" objtype="body" objname="a"/>
  </sensor>
</mujoco>
"""

CONSTRAINTS = f"""
<mujoco model="constraints">
  <compiler angle="degree"/>{_ARM}
  <tendon>
    <fixed name="t"><joint joint="j" coef="1"/><joint joint="k" coef="-2"/></fixed>
    <fixed name="u" armature=".2" user="1 2"><joint joint="k" coef="3"/></fixed>
    <spatial name="s" range=".1 9" stiffness="3" damping="2" springlength=".3 .5" frictionloss=".1" width=".01"
             rgba="1 0 0 1" group="2" solreflimit=".03 1" margin=".01" actuatorfrcrange="-2 2">
      <site site="sa"/><geom geom="gb" sidesite="sf"/><site site="sb"/><pulley divisor="2"/><site site="sa"/>
      <site site="sc"/>
    </spatial>
  </tendon>
  <equality>
    <connect name="point" body1="c" body2="free" anchor=".1 .2 .3" solref=".03 1" solimp=".8 .9 .01 .4 3"/>
    <connect body1="c" anchor="0 0 1" active="false"/>
    <connect site1="sa" site2="sf"/>
    <weld name="weld" body1="c" body2="free"/>
    <weld body1="c" body2="free" anchor="1 2 3" torquescale=".5"/>
    <weld body1="c" body2="free" relpose=".1 .2 .3 1 2 3 4" anchor="1 2 3"/>
    <weld body1="c" relpose=".1 .2 .3 1 2 3 4"/>
    <weld site1="sc" site2="sf"/>
    <joint name="couple" joint1="j" joint2="k" polycoef=".1 2 3 4 5"/>
    <joint joint1="j"/>
    <tendon tendon1="t" tendon2="u" polycoef=".1 2 0 0 0"/>
    <tendon tendon1="s"/>
  </equality>
  <contact>
    <exclude name="none" body1="a" body2="c"/><exclude body1="world" body2="c"/>
    <pair name="forced" geom1="ga" geom2="gc" condim="6" friction="1 2 3 4 5" margin=".1" gap=".02" solref=".01 2"
          solimp=".8 .9 .01 .4 3" solreffriction=".02 1"/>
    <pair geom1="floor" geom2="gf"/>
  </contact>
</mujoco>
"""

SCENERY = f"""
<mujoco model="scenery">
  <compiler angle="radian"/>
  <option timestep=".001" integrator="implicitfast" gravity="1 2 3" cone="elliptic" solver="CG" iterations="7"
          tolerance="1e-5" impratio="10" wind="1 0 0" density="1.2" viscosity=".1" magnetic="1 2 3"
          actuatorgroupdisable="2 4" jacobian="dense" noslip_iterations="3" o_margin=".1" o_solref=".1 .9">
    <flag filterparent="disable" energy="enable" warmstart="disable"/>
  </option>
  <size nuser_body="3" nkey="4"/>
  <statistic extent="2" center="1 2 3"/>
  <visual><global offwidth="800" fovy="30"/><rgba haze="1 0 0 1"/><map znear=".02"/></visual>
  <custom><numeric name="n" data="1 2 3"/><text name="x" data="hello"/>
    <tuple name="tu"><element objtype="body" objname="b" prm="1"/></tuple></custom>
  <default>
    <joint armature=".1"/>
    <default class="red"><geom rgba="1 0 0 1" friction=".5"/><joint damping="3"/><site size=".02" rgba="0 1 0 1"/>
      <default class="reddest"><geom rgba=".9 0 0 1" condim="1"/></default></default>
  </default>
  <asset>
    <texture name="checker" type="2d" builtin="checker" width="8" height="8" rgb1="1 0 0" rgb2="0 1 0"/>
    <texture type="skybox" builtin="gradient" width="8" height="8"/>
    <material name="tiles" texture="checker" texrepeat="2 3" texuniform="true" specular=".1" shininess="0"
              reflectance=".3" emission=".5" rgba=".5 .25 1 1"/>
    <material name="metal" metallic=".7" roughness=".2"/>
    <material name="unused" rgba="1 1 0 1"/>
    <mesh name="tetra" vertex="0 0 0  1 0 0  0 1 0  0 0 1" face="0 2 1  0 1 3  0 3 2  1 2 3"/>
    <mesh name="hull" vertex="0 0 0  1 0 0  0 1 0  0 0 1  2 2 2" scale=".1 .2 -.3" maxhullvert="8"/>
    <mesh name="moved" vertex="0 0 0  1 0 0  0 1 0  0 0 1  2 2 2" refpos="1 2 3" refquat="1 2 3 4" inertia="shell"/>
    <hfield name="hills" nrow="2" ncol="3" size="1 2 3 .5" elevation="0 1 2 3 4 5"/>
  </asset>
  <worldbody>
    <light name="sun" type="directional" dir="1 1 -1" diffuse=".5 .6 .7" castshadow="false" specular="0 0 0"/>
    <light pos="0 0 3" mode="targetbody" target="b" cutoff="0" exponent="0" attenuation="0 1 0" active="false"/>
    <camera name="wide" pos="1 2 3" xyaxes="0 1 0 0 0 1" fovy="70" resolution="64 48"/>
    <camera mode="trackcom" sensorsize=".01 .02" focal=".005 .006" principal=".001 .002" resolution="10 20" ipd=".1"/>
    <camera projection="orthographic" fovy="3" ipd="0"/>
    <geom name="hills" type="hfield" hfield="hills" pos="0 0 -9" material="tiles"/>
    <geom type="plane" size="0 0 .05" material="metal" rgba="0 0 1 1"/>
    <body name="b" pos="1 2 3" childclass="red" gravcomp=".25" user="1 2"><joint name="j" axis="0 0 1" group="2"/>
      {INERTIAL}
      <geom name="m" type="mesh" mesh="tetra" pos=".1 .2 .3" quat="1 2 3 4" class="reddest"/>
      <geom name="h" type="mesh" mesh="hull" contype="2" conaffinity="4" group="4" priority="3" solmix="2"/>
      <geom name="v" type="mesh" mesh="moved" contype="0" conaffinity="0" class="main" material="metal"/>
      <geom name="e" type="ellipsoid" size=".1 .2 .3" fluidshape="ellipsoid" fluidcoef="1 2 3 4 5" mass="2"/>
      <geom name="d" type="capsule" size=".1 .2" density="5" margin=".01" gap=".02" solimp=".8 .9 .01 .4 3"/>
      <geom name="s" size=".1" rgba="1 1 1 0" castshadow="false"/>
      <site name="p" material="tiles"/><site name="q" type="capsule" size=".1 .2" group="3" class="main"/>
      <body name="leaf" pos="0 0 1"><geom size=".2" mass="3"/></body>
    </body>
    <body name="hand" mocap="true" pos="1 2 3" quat="0 0 1 1">{BALL}
      <body name="finger" pos="0 0 .2"><joint name="f" solreflimit=".05 1" range="-1 1"/>{BALL}</body></body>
    <body name="table" pos="3 0 0"><geom type="box" size="1 1 .1"/></body>
    <body name="sleepy" pos="9 0 0" sleep="never"><freejoint align="false"/>{BALL}</body>
  </worldbody>
  <keyframe><key name="home" mpos="4 5 6" mquat="1 0 0 0" qpos=".5 .25 9 9 9 1 0 0 0"/></keyframe>
</mujoco>
"""

STACKED = f"""
<mujoco model="stacked">
  <worldbody>
    <body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint axis="0 0 1" pos="1 0 0"/>{BALL}
      <body pos="0 0 1"><joint type="slide"/><joint type="ball" pos="0 1 0"/>{BALL}
        <body euler="10 20 30">{BALL}</body></body></body>
  </worldbody>
</mujoco>
"""

ZOO = {
    # one element to a line: they are kept in order by their lines
    name: text.replace("/><", "/>\n<")
    for name, text in {
        "actuators": ACTUATORS,
        "sensors": SENSORS,
        "constraints": CONSTRAINTS,
        "scenery": SCENERY,
        "stacked": STACKED,
    }.items()
}
