"""Forward kinematics and inertias of USD stages as Newton's importer has them.

Run by the Python of the Newton virtual environment (see setup.sh); it imports
nothing of ours, so that it stays an independent judge. It reads a list of
requests from stdin, because Newton takes seconds to start, and prints a list of
as many answers:

    {"file": path, "configurations": [{joint: [values]}]}

A joint is called by the path of its prim; joints that a configuration does not
name stay where the stage has them, and so do those that Newton does not have, or
has with another number of positions. An answer has

    bodies          [{name, mass, com, inertia}], the name is the path of the
                    prim, the inertia about the centre of mass, in the axes of
                    the body
    joints          [{name, type, parent, child, num_positions, axes,
                    in_tree}]; axes are the moving ones: [x, y, z, is_rotation]
    unknown         the joints that were named but left where they are
    velocities      the joint and axis of each row of the mass matrix
    configurations  [{"poses": {body: 4x4 in the world}, "mass_matrix": [[]]}]
    warnings        what Newton had to say on the way

or {"error": text, "warnings": [...]} where Newton refuses the stage.

What Newton does differently, so that a test does not blame the writer:
- It computes in single precision.
- The coordinate of a joint is zero where its two frames coincide.
- A joint that closes a loop has no part in the kinematics; `in_tree` is false.
- Balls and free bodies have quaternions x y z w, after the position.
"""

# pyright: reportMissingImports=false
# the packages of another virtual environment

import contextlib
import io
import json
import sys
import warnings
from pathlib import Path

import newton
import numpy as np
import warp as wp


class BadRequest(Exception):
    """The caller's mistake, as opposed to a file that Newton refuses."""


def main() -> None:
    requests = json.load(sys.stdin)
    answers = []
    for request in requests:
        said = io.StringIO()
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(said):
            warnings.simplefilter("always")
            try:
                result = answer(request)
            except BadRequest as error:
                sys.exit(str(error))
            except Exception as error:  # whatever Newton throws is its verdict
                result: dict[str, object] = {"error": f"{type(error).__name__}: {error}"}
        spoken = [str(w.message) for w in caught] + [line for line in said.getvalue().splitlines() if line.strip()]
        result["warnings"] = list(dict.fromkeys(spoken))
        answers.append(result)
    json.dump(answers, sys.stdout)


def answer(request: dict) -> dict:
    if not Path(request["file"]).is_file():
        raise BadRequest(f"no file {request['file']}")
    builder = newton.ModelBuilder()
    # Simplified shapes are not what we ask for, and take time.
    builder.add_usd(request["file"], skip_mesh_approximation=True)
    model = builder.finalize(device="cpu")
    joints = joint_reports(model)
    wanted = request.get("configurations", [])
    sizes = {joint["name"]: joint["num_positions"] for joint in joints}
    unknown = sorted({n for c in wanted for n, q in c.items() if sizes.get(n) != len(q)})
    configurations = [
        configuration_report(model, joints, {n: q for n, q in c.items() if n not in unknown}) for c in wanted
    ]
    return {
        "unknown": unknown,
        "bodies": body_reports(model),
        "joints": joints,
        "velocities": velocities(model, joints),
        "configurations": configurations,
    }


def body_reports(model) -> list[dict]:
    if model.body_count == 0:
        return []
    masses, centers, inertias = (a.numpy() for a in (model.body_mass, model.body_com, model.body_inertia))
    return [
        {"name": name, "mass": float(m), "com": c.tolist(), "inertia": i.tolist()}
        for name, m, c, i in zip(model.body_label, masses, centers, inertias, strict=True)
    ]


def joint_reports(model) -> list[dict]:
    if model.joint_count == 0:
        return []
    kinds, parents, children = (a.numpy() for a in (model.joint_type, model.joint_parent, model.joint_child))
    starts_q, starts_v, axes = model.joint_q_start.numpy(), model.joint_qd_start.numpy(), model.joint_axis.numpy()
    in_tree = model.joint_articulation.numpy()
    counts = model.joint_dof_dim.numpy()
    names = ["world", *model.body_label]
    return [
        {
            "name": label,
            "type": newton.JointType(int(kinds[i])).name.lower(),
            "parent": names[parents[i] + 1],
            "child": names[children[i] + 1],
            "num_positions": int(starts_q[i + 1] - starts_q[i]),
            "axes": [
                [*axes[v].tolist(), int(v - starts_v[i] >= counts[i][0])] for v in range(starts_v[i], starts_v[i + 1])
            ],
            "in_tree": bool(in_tree[i] >= 0),
            "start": int(starts_q[i]),
        }
        for i, label in enumerate(model.joint_label)
    ]


def velocities(model, joints: list[dict]) -> list[list]:
    """The joint and axis of each row, tree after tree."""
    return [[joint["name"], axis] for joint in joints if joint["in_tree"] for axis in range(len(joint["axes"]))]


def configuration_report(model, joints: list[dict], configuration: dict) -> dict:
    q = model.joint_q.numpy().copy() if joints else np.zeros(0, np.float32)
    by_name = {joint["name"]: joint for joint in joints}
    for name, values in configuration.items():
        joint = by_name[name]
        q[joint["start"] : joint["start"] + len(values)] = values
    state = model.state()
    if state.body_q is None:
        return {"poses": {}, "mass_matrix": []}
    if joints:
        positions = wp.array(q, dtype=float, device=model.device)
        state.joint_q.assign(positions)
        newton.eval_fk(model, positions, wp.zeros_like(model.joint_qd), state)
    poses = {
        name: matrix(pose) for name, pose in zip(model.body_label, state.body_q.numpy().astype(float), strict=True)
    }
    return {"poses": poses, "mass_matrix": mass_matrix(model, state)}


def mass_matrix(model, state) -> list[list[float]]:
    """The blocks of all trees on the diagonal, in the order of `velocities`."""
    if model.articulation_count == 0:
        return []
    blocks = newton.eval_mass_matrix(model, state).numpy().astype(float)
    starts = model.joint_qd_start.numpy()
    firsts, ends = model.articulation_start.numpy(), model.articulation_end.numpy()
    sizes = [int(starts[end] - starts[first]) for first, end in zip(firsts, ends, strict=False)]
    result = np.zeros((sum(sizes), sum(sizes)))
    here = 0
    for block, size in zip(blocks, sizes, strict=False):
        result[here : here + size, here : here + size] = block[:size, :size]
        here += size
    return result.tolist()


def matrix(pose) -> list[list[float]]:
    """A position and a quaternion x y z w as a 4x4 matrix."""
    x, y, z, w = pose[3:] / np.linalg.norm(pose[3:])
    result = np.eye(4)
    result[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    result[:3, 3] = pose[:3]
    return result.tolist()


if __name__ == "__main__":
    main()
