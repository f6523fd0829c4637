"""What several tests share; imported as `kit`, which pytest and the development environment have on their path.

- `assets`, `diagnostics`, `patience`: where robots lie, diagnostics that a test claims, how long a test waits.
- `robots`: random robots of which one record says what may occur in them, one for each kind of joint, small ones, their
  configurations, and whether two are the same.
- `oracles`, `urdf_oracles`, `mjcf_side`, `mujoco_pairs`, `mass_matrix`: what others, or another way, say of a robot.
- `written`, `judges`: a written file and how it corresponds to its description; the verdicts of foreign programs on it.
- `round_trip`: to another format and back, and what differs then.
- `mutation`, `fuzz`, `misbehaviour`: damaged files, read in processes that may die, and tasks that do.
- `mjcf_models`, `usd_stages`, `usd_conformance`, `cad`: files and stages made by tests, and a CAD program's stand-in.
"""
