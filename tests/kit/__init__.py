"""What several tests share; imported as `kit`, which pytest and the development environment have on their path.

- `assets`, `diagnostics`, `patience`, `command_line`: where robots lie, diagnostics that a test claims, how long a test
  waits, and `kinema` with arguments.
- `robots`: random robots, of which a record says what may occur in them; one for each kind of joint; small ones; their
  configurations, and whether two are the same.
- `oracles`, `urdf_oracles`, `mujoco_models`, `mjcf_side`, `sensor_side`, `mass_matrix`: what others, or another way,
  say of a robot.
- `written`, `judges`: a written file and how it corresponds to its description; the verdicts of foreign programs on it.
- `round_trip`: to another format and back, and what differs then; `seen`: the same of what can be seen.
- `dressed_meshes`, `dressed_robots`: made-up meshes and robots with materials, textures and colours.
- `contact_scenes`, `scene_fuzz`, `contact_parity`: things that touch, with bounds, at random, beside MuJoCo; they and
  what they import do without pytest.
- `mutation`, `fuzz`, `misbehaviour`: damaged files, read in processes that may die, and tasks that do.
- `mjcf_texts`, `usd_stages`, `usd_conformance`, `cad`: files and stages that tests make, and a CAD program's stand-in.

What only the tests of one folder share lies beside them, and is imported relatively.
"""
