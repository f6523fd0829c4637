"""The functions of a compiled library: programs of a scene and of its model, emitted as one LLVM module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from kinema.codegen import LibraryModule, Target, call_program
from kinema.core import Diagnostics
from kinema.dynamics import ARRAYS, NAMESPACES, ControlMode
from kinema.ir import CPU_PASSES, ArenaOffset, Program, WhileLoop, run_passes, walk
from kinema.kinematics import (
    ACCELERATION,
    JOINT_FORCE,
    LINK_POSES,
    QACC_INPUT,
    ROTATION_WEIGHT,
    BatchedKinematics,
    IKOptions,
    KinematicQuery,
    OrientationGoal,
    PositionGoal,
    aba_query,
    jacobian_query,
    link_query,
    mass_matrix_query,
    rnea_query,
    trace_single_task_ik,
)
from kinema.runtime import LibraryTarget
from kinema.scene import Scene

from .interface import Field, Function, Interface, JointRange, NameTable, Parameter, Struct

MODEL_FUNCTIONS = ("fk", "jacobian", "rnea", "crba", "aba", "ik")
"""Functions of coordinates, velocities and forces, without a state."""
OBSERVED_GROUPS = ("poses", "sensors")
"""Groups of fields that `observe` computes."""
UNITS = {
    "error": "1 if the state is not finite: steps then leave it unchanged",
    "qpos": "coordinates [m, rad]; of a ball joint a quaternion (w, x, y, z)",
    "vel": "velocities [m/s, rad/s]; of a ball joint the angular velocity in the moved frame",
    "act": "activations of actuators",
    "warm_start": "acceleration by constraints in the last step, with which the solver starts",
    "contact_directions": "directions between pairs of convex geoms in the last step, from which their search starts",
    "contact_direction_step": "number of the last step, to tell which of these directions are valid",
    "n_contacts": "number of contacts in the last step",
    "n_lost_contacts": "contacts of the last step for which there was no memory",
    "n_iterations": "iterations of the solver in the last step",
    "max_n_contacts": "largest number of contacts so far",
    "max_required_capacity": "largest number of contacts between two bodies of which some were lost; 0 if none were",
    "command": "command of each degree of freedom by its control mode: position [m, rad], velocity or force [N, N m]",
    "ctrl": "controls of the actuators of the file",
    "ctrl_mode": "control modes that the library was compiled for; not read by most libraries",
    "actuator_on": "1 for actuators that act, else 0",
    "clock": "time that clock sensors show [s]; set by the caller",
    "cfrc_applied_ang": "external torque on each link [N m], world axes",
    "cfrc_applied_vel": "external force on each link at its centre of mass [N], world axes",
    "dof_force_applied": "external force on each degree of freedom [N, N m]",
    "kinematic_pose": "pose of each kinematic body: position [m] and quaternion (w, x, y, z)",
    "kinematic_target": "target pose of each kinematic body",
    "kinematic_velocity": "velocity of each kinematic body: linear [m/s], angular [rad/s]",
    "kinematic_steps": "steps until each kinematic body reaches its target",
    "surface_velocity": "surface velocity of each geom: linear [m/s], angular [rad/s]",
}
"""Comments on arrays of state and control."""


@dataclass(frozen=True, slots=True)
class LibraryRequest:
    """Scene, functions and target of a library that is compiled."""

    scene: Scene
    name: str
    functions: Sequence[str]
    target: LibraryTarget
    ik_links: Sequence[int]
    """Links for which inverse kinematics is compiled."""


class LibraryBuilder:
    """Traces and emits the functions of a library, and describes their C interface."""

    def __init__(self, request: LibraryRequest, diagnostics: Diagnostics) -> None:
        self._request = request
        self._name = request.name
        self._diagnostics = diagnostics
        self._built = request.scene.built
        self._engine = self._built.engine
        self._model = self._built.model
        precision = self._engine.precision
        target = request.target
        self.module = LibraryModule(
            Target(
                precision,
                has_fma=target.has_fma,
                flush_subnormals=target.flush_subnormals,
                has_contiguous_rows=True,
            )
        )
        self.interface = Interface(request.name, precision)
        self._loop_bounds: dict[str, int] = {}
        """Iteration bounds of loops until convergence, by function and loop."""
        self._n_workspace = 0
        self._dtype = np.float32 if precision == "single" else np.float64

    def build(self) -> None:
        """Emit all requested functions and fill in the interface."""
        self._describe_model()
        wanted = self._request.functions
        if any(name in MODEL_FUNCTIONS for name in wanted):
            self._add_model_functions([name for name in MODEL_FUNCTIONS if name in wanted])
        if "step" in wanted:
            self._add_simulation()
        self._add_tables()
        self._add_notes()

    # ------------------------------------------------------------------------------------------------- description

    def _describe_model(self) -> None:
        """Constants, names, joint ranges and limits of the model."""
        model, interface = self._model, self.interface
        interface.constants |= {
            "N_Q": (model.n_qs, "coordinates"),
            "N_V": (model.n_dofs, "degrees of freedom"),
            "N_LINKS": (model.n_links, "links"),
            "N_JOINTS": (len(model.joints.names), "joints"),
            "N_ACTUATORS": (model.n_actuators, "actuators"),
        }
        interface.name_tables += [
            NameTable.from_names("link", model.links.names),
            NameTable.from_names("joint", model.joints.names),
            NameTable.from_names("actuator", model.actuators.names),
        ]
        joints = model.joints
        columns = (joints.q_start, joints.q_end, joints.dof_start, joints.dof_end)
        for i, (name, kind, link) in enumerate(zip(joints.names, joints.kinds, joints.link_idx, strict=True)):
            ranges = [int(column[i]) for column in columns]
            limits = [(float(model.dofs.lower[dof]), float(model.dofs.upper[dof])) for dof in range(*ranges[2:])]
            interface.joints.append(JointRange(name, kind, model.links.names[link], *ranges, limits))
        for name, values, comment in (
            ("initial_q", model.qpos0, "initial coordinates [m, rad]"),
            ("lower", model.dofs.lower, "lower limit of each degree of freedom [m, rad]; -inf without limit"),
            ("upper", model.dofs.upper, "upper limit of each degree of freedom [m, rad]; inf without limit"),
            *self._passive_tables(),
        ):
            interface.tables.append((Field(name, (len(values),), comment), np.asarray(values, self._dtype)))

    def _passive_tables(self) -> list[tuple[str, np.ndarray, str]]:
        """Name, values and comment of damping, dry friction and force limits of all degrees of freedom in the scene."""
        entities = [entity for entity in self._request.scene.entities if entity.n_dofs]

        def concatenated(rows: Sequence[np.ndarray]) -> np.ndarray:
            return np.concatenate([np.asarray(row, np.float64).ravel() for row in rows])

        ranges = [entity.get_dofs_force_range() for entity in entities]
        return [
            (
                "damping",
                concatenated([entity.get_dofs_damping() for entity in entities]),
                "viscous damping of each degree of freedom [N s/m, N m s/rad]",
            ),
            (
                "friction",
                concatenated([entity.get_dofs_frictionloss() for entity in entities]),
                "dry friction of each degree of freedom [N, N m]",
            ),
            (
                "min_force",
                concatenated([lower for lower, _ in ranges]),
                "smallest force of a drive on each degree of freedom [N, N m]; -inf without limit",
            ),
            (
                "max_force",
                concatenated([upper for _, upper in ranges]),
                "largest force of a drive on each degree of freedom [N, N m]; inf without limit",
            ),
        ]

    def _add_tables(self) -> None:
        """Emit the exported constants: names, limits, initial state and control."""
        for table in self.interface.name_tables:
            if table.names:
                self.module.add_constants(f"{self._name}_{table.name}_names", table.characters, exported=True)
        for field, values in self.interface.tables:
            if field.size:
                self.module.add_constants(f"{self._name}_{field.name}", values, exported=True)

    def _add_notes(self) -> None:
        """Notes on memory, bounded iterations and control modes."""
        notes = self.interface.notes
        if self.interface.has_simulation:
            modes = self._built.controls.modes.tolist()
            of_mode = {
                mode: [n for n, m in zip(self._model.dofs.names, modes, strict=True) if m == mode] for mode in modes
            }
            listed = (
                f"{ControlMode(mode).name.lower()}: {', '.join(names)}" for mode, names in sorted(of_mode.items())
            )
            notes.append(f"Control modes of the degrees of freedom: {'; '.join(listed)}.")
        bounds = sorted({f"{loop}: {bound}" for loop, bound in self._loop_bounds.items()})
        notes.append(
            "Functions do not allocate, call no other library, have no state of their own and can run in several "
            "threads at once. All loops are bounded."
            + (f" Largest numbers of iterations of loops until convergence: {'; '.join(bounds)}." if bounds else "")
        )

    def _prepare(self, program: Program, function: str) -> Program:
        """Program after the passes for CPUs; notes its loops and the scratch memory."""
        prepared = run_passes(program, CPU_PASSES)
        for statement in walk(prepared.body):
            if isinstance(statement, WhileLoop):
                name = f"{function}, {statement.name.lower().replace('_', ' ').strip()}"
                self._loop_bounds[name] = max(self._loop_bounds.get(name, 0), statement.max_iterations)
        return prepared

    # ---------------------------------------------------------------------------------------------- model functions

    def _add_model_functions(self, names: Sequence[str]) -> None:
        """Forward kinematics, Jacobian, RNEA, CRBA and ABA of the model without constraints."""
        model = self._model
        if model.kinematic_frames:
            self._diagnostics.note(
                "library.kinematic-bodies",
                f"{', '.join(names)}: not compiled, as poses of kinematic bodies are part of the state",
            )
            return
        kinematics = BatchedKinematics(model, self._engine.device, self._engine.precision)
        parameters = kinematics.parameters
        for name in parameters.layout.rows:  # gravity and armature as set in the scene
            if self._engine.has_array(name) and len(values := self._engine.read_array(name)):
                parameters.view(name).assign(values[:, :1])
        self.module.add_constants(f"{self._name}.model_parameters", np.asarray(parameters.data, np.float64))
        n_q, n_v, n_links = model.n_qs, model.n_dofs, model.n_links
        q, v = Parameter("q", "array", (n_q,)), Parameter("v", "array", (n_v,))
        for name in names:
            match name:
                case "fk":
                    outputs = [
                        Parameter("pos", "array", (n_links, 3), is_output=True, is_input=False),
                        Parameter("quat", "array", (n_links, 4), is_output=True, is_input=False),
                    ]
                    arrays = {"qpos": "q", "link position": "pos", "link quaternion": "quat"}
                    comment = (
                        "Forward kinematics: positions [m] and quaternions (w, x, y, z) of all links in the world."
                    )
                    self._add_query(
                        kinematics, name, link_query("link poses", LINK_POSES), arrays, [q, *outputs], comment
                    )
                case "jacobian":
                    self._add_jacobian(kinematics, q)
                case "ik":
                    self._add_inverse_kinematics(q)
                case "rnea":
                    a = Parameter("a", "array", (n_v,))
                    tau = Parameter("tau", "array", (n_v,), is_output=True, is_input=False)
                    arrays = {"qpos": "q", "vel": "v", QACC_INPUT: "a", JOINT_FORCE: "tau"}
                    comment = (
                        "Inverse dynamics by RNEA: tau = M(q) a + c(q, v) [N, N m], gravity and armature included; "
                        "without springs, damping and dry friction."
                    )
                    self._add_query(kinematics, name, rnea_query(model), arrays, [q, v, a, tau], comment)
                case "crba":
                    mass = Parameter("mass_matrix", "array", (n_v, n_v), is_output=True, is_input=False)
                    arrays = {"qpos": "q", "mass matrix": "mass_matrix"}
                    comment = "Mass matrix M(q) by CRBA [kg, kg m, kg m2], all entries, with armature."
                    self._add_query(
                        kinematics,
                        name,
                        mass_matrix_query(model),
                        arrays,
                        [q, mass],
                        comment,
                        sparse_output=mass if self._has_branches() else None,
                    )
                case "aba":
                    tau = Parameter("tau", "array", (n_v,))
                    a = Parameter("a", "array", (n_v,), is_output=True, is_input=False)
                    arrays = {"qpos": "q", "vel": "v", JOINT_FORCE: "tau", ACCELERATION: "a"}
                    comment = (
                        "Forward dynamics by ABA: a = M(q)^-1 (tau - c(q, v)) [m/s2, rad/s2]; without springs, "
                        "damping, dry friction, limits and contacts."
                    )
                    self._add_query(kinematics, name, aba_query(model), arrays, [q, v, tau, a], comment)

    def _add_query_program(
        self, kinematics: BatchedKinematics, symbol: str, query: KinematicQuery, arrays: Mapping[str, str]
    ) -> tuple[list[str], int]:
        """Emit the internal function of a query.

        Args:
            kinematics: the model.
            symbol: name of the internal function.
            query: the query.
            arrays: input or output array -> pointer that it is passed by.

        Returns:
            The pointers of the function, and its scratch memory in scalars.
        """
        offsets = {array: ArenaOffset(pointer, 0) for array, pointer in arrays.items()}
        offsets |= kinematics.parameters.layout.offsets()
        pointers = list(dict.fromkeys(arrays.values()))
        row_of: dict[str, int] = {}
        for array, pointer in arrays.items():  # consecutive arrays of one pointer
            offsets[array] = ArenaOffset(pointer, row_of.get(pointer, 0))
            row_of[pointer] = row_of.get(pointer, 0) + self._model.n_dofs
        program = self._prepare(kinematics.trace_query(query, offsets), symbol.partition(".")[2])
        self.module.add_program(symbol, program, offsets, pointers, uniform_symbol=f"{self._name}.model_parameters")
        return pointers, program.n_scratch

    def _add_query(
        self,
        kinematics: BatchedKinematics,
        name: str,
        query: KinematicQuery,
        arrays: Mapping[str, str],
        parameters: Sequence[Parameter],
        comment: str,
        *,
        sparse_output: Parameter | None = None,
    ) -> None:
        """Emit a query and its exported function, with scratch memory on the stack.

        A sparse output, of which the query writes only the nonzero entries, is filled with zeros first.
        """
        symbol = f"{self._name}.{name}"
        pointers, n_scratch = self._add_query_program(kinematics, symbol, query, arrays)
        signature = ", ".join(f"ptr %{pointer}" for pointer in pointers)
        self.module.add_function(
            f"void @{self._name}_{name}({signature})",
            [
                *self._stack_memory(n_scratch),
                *(
                    []
                    if sparse_output is None
                    else self._fill_with_zeros(sparse_output.name, prod(sparse_output.shape))
                ),
                call_program(symbol, [f"%{pointer}" for pointer in pointers], "%scratch"),
                "ret void",
            ],
        )
        self.interface.functions.append(Function(name, parameters, comment))

    def _has_branches(self) -> bool:
        """Whether frames lie on different branches of the tree, so that entries of the mass matrix are zero."""
        parents = self._model.frames.parent_idx
        return bool((parents != np.arange(-1, len(parents) - 1)).any())

    def _fill_with_zeros(self, pointer: str, count: int, start: str = "entry") -> list[str]:
        """LLVM instructions after the label `start` that set the scalars at a pointer to zero."""
        scalar = self.module.target.scalar_type
        return [
            f"br label %{start}.zero",
            f"{start}.zero:",
            f"%{start}.i = phi i32 [ 0, %{start} ], [ %{start}.next, %{start}.zero ]",
            f"%{start}.p = getelementptr {scalar}, ptr %{pointer}, i32 %{start}.i",
            f"store {scalar} 0.0, ptr %{start}.p",
            f"%{start}.next = add nuw nsw i32 %{start}.i, 1",
            f"%{start}.more = icmp ult i32 %{start}.next, {count}",
            f"br i1 %{start}.more, label %{start}.zero, label %{start}.run",
            f"{start}.run:",
        ]

    def _stack_memory(self, n_scratch: int) -> list[str]:
        """LLVM instruction that allocates `%scratch` on the stack."""
        return [f"%scratch = alloca [{max(n_scratch, 1)} x {self.module.target.scalar_type}], align 16"]

    def _add_jacobian(self, kinematics: BatchedKinematics, q: Parameter) -> None:
        """Emit the Jacobian of each link, and the exported function that selects one of them."""
        n_v, n_links = self._model.n_dofs, self._model.n_links
        scratch = 0
        arrays = {"qpos": "q", **dict.fromkeys(jacobian_query(0).outputs, "jacobian")}
        for link in range(n_links):
            _, n_scratch = self._add_query_program(
                kinematics, f"{self._name}.jacobian{link}", jacobian_query(link), arrays
            )
            scratch = max(scratch, n_scratch)
        zeroed = {link: ("jacobian", 6 * n_v) for link in range(n_links) if self._n_dofs_to(link) < n_v}
        self._add_dispatch("jacobian", range(n_links), ["%q", "%jacobian"], scratch, zeroed)
        output = Parameter("jacobian", "array", (6, n_v), is_output=True, is_input=False)
        comment = (
            "Jacobian of a link at its origin, world axes: three rows of linear [m, m/rad], three of angular velocity. "
            "Unchanged for an index that is no link."
        )
        self.interface.functions.append(Function("jacobian", [Parameter("link", "int"), q, output], comment))

    def _n_dofs_to(self, link: int) -> int:
        """Number of degrees of freedom between the world and a link."""
        frames, frame, count = self._model.frames, int(self._model.links.frame_idx[link]), 0
        while frame >= 0:
            count += int((self._model.dofs.frame_idx == frame).sum())
            frame = int(frames.parent_idx[frame])
        return count

    def _add_dispatch(
        self,
        name: str,
        links: Sequence[int],
        pointers: Sequence[str],
        n_scratch: int,
        zeroed: Mapping[int, tuple[str, int]] | None = None,
    ) -> None:
        """Emit the exported function that calls the internal function of a link, or none for other links.

        Args:
            name: name of the functions.
            links: links that the function is compiled for.
            pointers: arguments of the internal functions.
            n_scratch: scratch memory in scalars.
            zeroed: links of whose output only the nonzero entries are written -> pointer of the output and its size.
        """
        cases = " ".join(f"i32 {link}, label %link{link}" for link in links)
        lines = [*self._stack_memory(n_scratch), f"switch i32 %link, label %done [ {cases} ]"]
        for link in links:
            lines.append(f"link{link}:")
            if zeroed is not None and link in zeroed:
                lines += self._fill_with_zeros(*zeroed[link], start=f"link{link}")
            lines += [
                call_program(f"{self._name}.{name}{link}", pointers, "%scratch"),
                "br label %done",
            ]
        signature = ", ".join(f"ptr {pointer}" for pointer in pointers)
        self.module.add_function(f"void @{self._name}_{name}(i32 %link, {signature})", [*lines, "done:", "ret void"])

    def _add_inverse_kinematics(self, q: Parameter) -> None:
        """Emit inverse kinematics of the position and orientation of some links, and the function that selects one."""
        options, names = IKOptions(), self._model.links.names
        arenas = {"target 0": "pos", "target 1": "quat", "q": "q", "result": "result"}
        scratch = 0
        for link in self._request.ik_links:
            goals = [PositionGoal(link_idx=link), OrientationGoal(link_idx=link, weight=ROTATION_WEIGHT)]
            solver, symbol = trace_single_task_ik(self._model, goals, options), f"{self._name}.ik{link}"
            offsets = {array: ArenaOffset(arena, 0) for array, arena in arenas.items()} | solver.parameters.offsets()
            program = self._prepare(solver.program, "ik")
            self.module.add_constants(f"{symbol}.parameters", solver.values)
            self.module.add_program(
                symbol, program, offsets, list(arenas.values()), uniform_symbol=f"{symbol}.parameters"
            )
            scratch = max(scratch, program.n_scratch)
        self._add_dispatch("ik", self._request.ik_links, ["%pos", "%quat", "%q", "%result"], scratch)
        self.interface.constants |= {
            "IK_POS_TOLERANCE": (options.pos_tol, "position error of a solution [m]"),
            "IK_ROT_TOLERANCE": (options.rot_tol, "orientation error of a solution [rad]"),
        }
        listed = ", ".join(names[link] for link in self._request.ik_links)
        comment = (
            f"Inverse kinematics of a link ({listed}): position [m] and quaternion (w, x, y, z) in the world; q is the "
            "start and becomes the solution within the joint limits, or the closest configuration found. result: "
            "position error [m], orientation error [rad], number of attempts, number of iterations; a target is "
            "reached if both errors are below the tolerances. Levenberg-Marquardt, at most "
            f"{options.max_solver_iters} iterations for each of at most {options.max_samples} starts. "
            "Outputs are unchanged for other links."
        )
        parameters = [
            Parameter("link", "int"),
            Parameter("pos", "array", (3,)),
            Parameter("quat", "array", (4,)),
            Parameter("q", "array", q.shape, is_output=True),
            Parameter("result", "array", (4,), is_output=True, is_input=False),
        ]
        self.interface.functions.append(Function("ik", parameters, comment))

    # --------------------------------------------------------------------------------------------------- simulation

    def _add_simulation(self) -> None:
        """Emit `step` and `observe`, with their structs and the initial state."""
        engine, interface, name = self._engine, self.interface, self._name
        offsets, state_fields = self._state_fields()
        control = _struct("control", engine.controls.layout.rows, "Inputs of a step, constant during a call.")
        interface.structs += [Struct("state", state_fields, "State of the simulation; a copy is a snapshot."), control]
        self.module.add_constants(f"{name}.parameters", np.asarray(engine.uniform.data, np.float64))
        step = self._prepare(engine.step_source().trace(), "step")
        self.module.add_program(
            f"{name}.step",
            step,
            offsets,
            ("state", "controls"),
            uniform_symbol=f"{name}.parameters",
            runs_per_step=engine.runs_per_step,
        )
        self._n_workspace = step.n_scratch
        self._add_observe(offsets)
        workspace = Field("memory", (max(self._n_workspace, 1),), "intermediate values; its content does not matter")
        interface.structs.append(Struct("workspace", [workspace], "Working memory of one call."))
        substeps = self._request.scene.substeps
        self.module.add_function(
            f"void @{name}_step(ptr %state, ptr %control, i32 %n, ptr %workspace)",
            [
                "%steps = sext i32 %n to i64",
                f"%count = mul i64 %steps, {substeps}",
                call_program(f"{name}.step", ["%state", "%control"], "%workspace", "%count"),
                "ret void",
            ],
        )
        comment = f"Advance the state by n steps of {self._request.scene.dt:g} s" + (
            f" ({substeps} substeps each)." if substeps > 1 else "."
        )
        interface.constants["DT"] = (float(self._request.scene.dt), "duration of a step [s]")
        interface.functions.insert(
            0,
            Function(
                "step",
                [
                    Parameter("state", "state", is_output=True),
                    Parameter("control", "control"),
                    Parameter("n", "int"),
                    Parameter("workspace", "workspace", is_output=True, is_input=False),
                ],
                comment,
            ),
        )
        for struct, arena in (("state", engine.state), ("control", engine.controls)):
            values = np.zeros(interface.struct(struct).size, self._dtype)
            values[: arena.layout.n_rows] = arena.data[: arena.layout.n_rows, 0]
            self.module.add_constants(f"{name}_initial_{struct}", values, exported=True)

    def _state_fields(self) -> tuple[dict[str, ArenaOffset], list[Field]]:
        """Array offsets of the programs of the scene and members of the state; a clock is one of them."""
        engine = self._engine
        offsets = dict(engine.array_offsets)
        fields = list(_struct("state", engine.state.layout.rows, "").fields)
        if engine.uniform.layout.rows["clock"][1]:
            offsets["clock"] = ArenaOffset("state", engine.state.layout.n_rows)
            fields.append(Field("clock", (1,), UNITS["clock"]))
        return offsets, fields

    def _add_observe(self, offsets: Mapping[str, ArenaOffset]) -> None:
        """Emit `observe`: the fields of links, and all sensor values."""
        engine, name, lines = self._engine, self._name, list[str]()
        fields: list[Field] = []
        infos = {
            info.name: info for namespace in NAMESPACES.values() for info in namespace if info.group in OBSERVED_GROUPS
        }
        if not self._model.sensors.n_values:
            groups: Sequence[str] = OBSERVED_GROUPS[:1]
        else:
            groups = OBSERVED_GROUPS
            self.interface.constants["N_SENSOR_VALUES"] = (self._model.sensors.n_values, "values of all sensors")
            self._describe_sensors()
        for group in groups:
            source, layout = engine.fields.group_program(group)
            program = self._prepare(source.trace(), "observe")
            symbol = f"{name}.{group}"
            self.module.add_program(
                symbol,
                program,
                {**offsets, **layout.offsets()},
                ("state", "controls", "out"),
                uniform_symbol=f"{name}.parameters",
            )
            self._n_workspace = max(self._n_workspace, program.n_scratch)
            start = sum(member.size for member in fields)
            out = f"%{group}"
            lines.append(f"{out} = getelementptr {self.module.target.scalar_type}, ptr %observation, i32 {start}")
            lines.append(call_program(symbol, ["%state", "%control", out], "%workspace"))
            for array, (_, count) in layout.rows.items():
                info = infos[array.split(" ", 1)[1]]
                n = max(count // max(int(np.prod(info.element_shape)), 1), 1)
                fields.append(Field(info.name, (n, *info.element_shape), f"{info.meaning} [{info.unit}]"))
        comment = "Measured quantities of a state; poses of links in the world."
        self.interface.structs.append(Struct("observation", fields, comment))
        self.module.add_function(
            f"void @{name}_observe(ptr %state, ptr %control, ptr %observation, ptr %workspace)", [*lines, "ret void"]
        )
        self.interface.functions.append(
            Function(
                "observe",
                [
                    Parameter("state", "state"),
                    Parameter("control", "control"),
                    Parameter("observation", "observation", is_output=True, is_input=False),
                    Parameter("workspace", "workspace", is_output=True, is_input=False),
                ],
                "Poses of all links and values of all sensors in a state.",
            )
        )

    def _describe_sensors(self) -> None:
        """Names of the sensors, the range of values of each, and notes on what is simulated by the host only."""
        sensors = self._model.sensors
        self.interface.name_tables.append(NameTable.from_names("sensor", sensors.names))
        starts = np.asarray([*sensors.start, sensors.n_values], self._dtype)
        comment = "index of the first value of each sensor in `sensordata`; the last entry is the number of values"
        self.interface.tables.append((Field("sensor_start", (len(starts),), comment), starts))
        timed = [n for n, rate, delay in zip(sensors.names, sensors.rate, sensors.delay, strict=True) if rate or delay]
        if timed or sensors.noise.any() or sensors.resolution.any():
            self._diagnostics.note(
                "library.ideal-sensors",
                "observe computes ideal sensor values: rates, delays, noise, biases and resolutions are not applied",
            )


def _struct(name: str, rows: Mapping[str, tuple[int, int]], comment: str) -> Struct:
    """Struct with the arrays of an arena as members, in memory order."""
    infos = {info.name: info for info in ARRAYS}
    fields = []
    for array, (_, count) in rows.items():
        if count:
            info = infos[array]
            text = UNITS.get(array, f"{array.replace('_', ' ')}, per {info.element_kind.value}")
            shape = (count,) if info.width == 1 else (count // info.width, info.width)
            fields.append(Field(array, shape, text, source=array))
    return Struct(name, fields, comment)
