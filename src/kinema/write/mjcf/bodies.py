"""The MuJoCo body tree: bodies of links and of joint carriers, inertials that MuJoCo accepts, and sleep policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Pose, WriteError, quaternion_to_matrix
from kinema.description import (
    Base,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Inertial,
    Joint,
    JointKind,
    KinematicTree,
    Link,
    Plane,
    Robot,
    Shape,
    Sphere,
    TreeEdge,
    combine_inertials,
    file_order,
    free_axes,
    geometry_mass_properties,
    joint_coordinates,
)
from kinema.tokens import mjcf

from ..validation import BASE_LOSS, unspecified_base_text
from ..xml_document import Element, format_number, format_numbers
from .attributes import ROUNDING_NOISE, vector_text
from .context import MjcfBody, MjcfContext
from .joint_decomposition import (
    FreeJointPose,
    MjcfJoint,
    decompose_edge,
    decompose_joints,
    joint_name_suffixes,
    split_by_body,
)

# ------------------------------------------------------------------------------------------------------------ body tree

MAX_DEPTH = 480
"""Maximum nesting of bodies; MuJoCo's XML parser accepts at most 500 nested elements."""


def build_body_tree(ctx: MjcfContext) -> None:
    """Build the MuJoCo bodies of all robots in `ctx`, with their joints and names."""
    for robot in ctx.robots:
        tree = robot.tree()
        _BodyTreeBuilder(ctx, robot, tree).build()
    ctx.root_bodies.sort(key=_file_order)  # which changes nothing unless robots were mixed in a file
    for top in ctx.root_bodies:
        for body in top.iterate_subtree():
            if body.link is None:
                body.name = ctx.names.new_name(mjcf.BODY, body.carrier_name, body.robot)
    _check_depth(ctx)


def _file_order(root_body: MjcfBody) -> float:
    """Order of a root body in its source file; infinite for links without one."""
    return file_order(next(body.link for body in root_body.iterate_subtree() if body.link is not None))


def iterate_bodies(ctx: MjcfContext) -> Iterator[MjcfBody]:
    """Iterate over all bodies in file order, which is the order of MuJoCo's body ids."""
    for top in ctx.root_bodies:
        yield from top.iterate_subtree()


def body_name(ctx: MjcfContext, body: MjcfBody) -> str:
    """Name of a body in the file, for references."""
    return body.name if body.link is None else ctx.names.name_of(mjcf.BODY, body.link)


@dataclass(slots=True, eq=False)
class _BodyTreeBuilder:
    """Builder of the MuJoCo bodies of one robot from its kinematic tree."""

    ctx: MjcfContext
    robot: Robot
    tree: KinematicTree
    initial_coordinates: dict[str, Array] = field(default_factory=dict)
    """Initial coordinates by joint name."""

    def build(self) -> None:
        """Create the bodies of all links, root bodies first, and report joints that are not written."""
        robot = self.robot
        is_own = robot.format == mjcf.FORMAT
        for link in robot.links:
            self.ctx.names.register(mjcf.BODY, link, robot, always_named=not (link.name_is_generated and is_own))
        self.initial_coordinates = joint_coordinates(robot.joints, {})
        by_name = {link.name: link for link in robot.links}
        order = {link.name: i for i, link in enumerate(robot.links)}
        hanging = [(order[root], self._add_root_body(by_name[root])) for root in self.tree.roots]
        inside: dict[str, list[TreeEdge]] = {}
        for edge in self.tree.edges:
            if edge.parent is None:
                body = self._add_jointed_body(by_name[edge.child], edge, None)
                hanging.append((order[edge.child], body))
            else:
                inside.setdefault(edge.parent, []).append(edge)
        self.ctx.root_bodies += [body for _, body in sorted(hanging, key=lambda item: item[0])]
        waiting = [
            self.ctx.bodies_by_link[id(by_name[name])] for name in [*self.tree.roots, *self._world_jointed_links()]
        ]
        while waiting:
            body = waiting.pop()
            assert body.link is not None  # only links are in the tree
            for edge in sorted(inside.get(body.link.name, ()), key=lambda e: order[e.child]):
                self._add_jointed_body(by_name[edge.child], edge, body)
                waiting.append(self.ctx.bodies_by_link[id(by_name[edge.child])])
        self._report_unused_joints()

    def _world_jointed_links(self) -> list[str]:
        return [e.child for e in self.tree.edges if e.parent is None]

    # -- roots --------------------------------------------------------------------------------------------------------

    def _add_root_body(self, link: Link) -> MjcfBody:
        """Create the body of a link without joint: fixed, mocap, or with a free joint, depending on the robot base."""
        writing, robot = self.ctx, self.robot
        pose = robot.pose if link.pose is None else robot.pose @ link.pose
        body = MjcfBody(robot, link, pose)
        writing.bodies_by_link[id(link)] = body
        if robot.static:
            return body
        if link.kinematic:
            body.mocap = True
        elif robot.base is Base.FREE:
            # not a joint of the description, but the freedom that its base has
            free = Joint(name=f"{link.name}_free", kind=JointKind.FREE, parent=None, child=link.name, axes=free_axes())
            body.joints = [MjcfJoint(free, "free", 0, free_pose=FreeJointPose(pose, Pose()))]
        elif robot.base is Base.UNSPECIFIED:
            writing.report_approximated(robot, BASE_LOSS, unspecified_base_text("MuJoCo fixes it to the world"))
            writing.unspecified_roots.append(link)
        return body

    # -- links that joints hold ---------------------------------------------------------------------------------------

    def _add_jointed_body(self, link: Link, edge: TreeEdge, parent: MjcfBody | None) -> MjcfBody:
        """Create the body of a jointed link, preceded by carrier bodies if its joints need several bodies.

        Returns:
            The outermost body of the chain.
        """
        pose, parts = (
            (edge.pose(self.initial_coordinates), [])
            if self.robot.static
            else decompose_edge(edge, self.initial_coordinates)
        )
        base = self.robot.pose if parent is None else None
        if parts and parent is None and len(edge.joints) == 1 and edge.joints[0].kind is JointKind.FREE:
            pose, parts = self._free_joint(edge)
            base = None
        pose = pose if base is None else base @ pose
        chain = split_by_body(parts)
        outermost = above = None
        for number, run in enumerate(chain):
            last = number == len(chain) - 1
            body = MjcfBody(self.robot, link if last else None, pose if number == 0 else Pose(), run)
            body.carrier_name = "" if last else f"{link.name}_carrier"
            if number == 0:
                outermost = body
                if parent is not None:
                    body.attach_to(parent)
            else:
                assert above is not None  # the run before this one made it
                body.attach_to(above)
            above = body
        assert above is not None  # there is at least one run, if an empty one
        assert outermost is not None  # likewise
        self._set_mocap(link, above, parent)
        self.ctx.bodies_by_link[id(link)] = above
        self._register_joints(edge.joints, parts)
        if len(chain) > 1:
            how = "they have more freedom than one body of MuJoCo's may have; a body of hardly any mass is between"
            self.ctx.report_approximated(link, "its joints", how)
        return outermost

    def _free_joint(self, edge: TreeEdge) -> tuple[Pose, list[MjcfJoint]]:
        """World pose and free joint of a link with a free joint to the world; qpos is the body pose in the world."""
        joint = edge.joints[0]
        before, after = self.robot.pose @ joint.parent_pose, joint.child_pose.inverse()
        if edge.reversed:
            before, after = self.robot.pose @ joint.child_pose, joint.parent_pose.inverse()
        placed = FreeJointPose(before, after, edge.reversed)
        return placed.pose_at(self.initial_coordinates[joint.name]), [MjcfJoint(joint, "free", 0, free_pose=placed)]

    def _set_mocap(self, link: Link, body: MjcfBody, parent: MjcfBody | None) -> None:
        """Make the body of a kinematic link a mocap body, which MuJoCo allows only for fixed bodies of the world."""
        if not link.kinematic or self.robot.static:
            return
        if parent is None and not body.joints:
            body.mocap = True
        else:
            how = "MuJoCo moves only bodies so that hang on nothing; this one follows its joints"
            self.ctx.report_dropped(link, "that it is moved by the user", how)

    def _register_joints(self, joints: tuple[Joint, ...], mjcf_joints: list[MjcfJoint]) -> None:
        """Register the MuJoCo joints of each of the stacked joints."""
        for joint in joints:
            register_joint(self.ctx, self.robot, joint, [p for p in mjcf_joints if p.joint is joint])

    def _report_unused_joints(self) -> None:
        for joint in self.tree.dangling:
            self.ctx.report_dropped(joint, "the joint", "it names a link that does not exist, or one link twice")
        for joint in self.robot.joints:
            if not joint.enabled:
                self.ctx.report_dropped(joint, "the joint", "it is switched off")


def register_joint(ctx: MjcfContext, robot: Robot, joint: Joint, mjcf_joints: list[MjcfJoint]) -> None:
    """Name and store the MuJoCo joints of a joint, and report decompositions and changed coordinates."""
    ctx.joints_by_source[id(joint)] = mjcf_joints
    shown = not (joint.name_is_generated and robot.format == mjcf.FORMAT)
    entry = ctx.names.register(mjcf.JOINT, joint, robot, always_named=shown and len(mjcf_joints) == 1)
    if not mjcf_joints:
        if robot.static and joint.n_dofs:
            ctx.report_dropped(joint, "the joint", "nothing of its robot ever moves")
        elif not joint.implicit:
            ctx.report_dropped(joint, "its name", "MuJoCo has no fixed joints: the body sits in its parent")
        return
    if len(mjcf_joints) == 1:
        mjcf_joints[0].name = entry.written_name
    else:
        for part, suffix in zip(mjcf_joints, joint_name_suffixes(mjcf_joints), strict=True):
            part.name = ctx.names.new_name(mjcf.JOINT, joint.name + suffix, robot)
        listed = ", ".join(f"{p.kind} {p.name!r}" for p in mjcf_joints)
        how = f"it is {listed} of one body; the motion and the coordinates are the same"
        if joint.kind is JointKind.SCREW:
            how = f"it is {listed}, which an equality constraint couples"
        ctx.report_approximated(joint, f"a {joint.kind.value.replace('_', '-')} joint", how)
    if not all(p.preserves_coordinates for p in mjcf_joints if p.travel_per_radian is None):
        how = "MuJoCo measures them by the frame of the body; the motion is the same"
        ctx.report_approximated(joint, "its coordinates", how)


def joint_name(ctx: MjcfContext, mjcf_joint: MjcfJoint) -> str:
    """Name of a MuJoCo joint in the file, for references; assigned if it has none."""
    if not mjcf_joint.name:
        key = ("joint", id(mjcf_joint.joint))
        if key in ctx.names.by_node:
            mjcf_joint.name = ctx.names.name_of(mjcf.JOINT, mjcf_joint.joint)
        else:
            mjcf_joint.name = ctx.names.new_name(mjcf.JOINT, mjcf_joint.joint.name)
    return mjcf_joint.name


def add_carrier_body(ctx: MjcfContext, robot: Robot, joint: Joint) -> MjcfBody:
    """Add an auxiliary body that is attached by a loop-closing joint to its parent, at the pose of its child."""
    pose, parts = decompose_joints([joint], {joint.name: joint.start})
    links = {link.name: link for link in robot.links}
    parent = None if joint.parent is None else ctx.bodies_by_link[id(links[joint.parent])]
    body = MjcfBody(robot, None, pose if parent is not None else robot.pose @ pose, parts)
    body.carrier_name = f"{joint.name}_carrier"
    body.name = ctx.names.new_name(mjcf.BODY, body.carrier_name, robot)
    if parent is None:
        ctx.root_bodies.append(body)
    else:
        body.attach_to(parent)
    register_joint(ctx, robot, joint, parts)
    return body


def _check_depth(ctx: MjcfContext) -> None:
    """Raise a `WriteError` if bodies are nested deeper than `MAX_DEPTH`."""
    level = [(body, 1) for body in ctx.root_bodies]
    while level:
        body, depth = level.pop()
        if depth > MAX_DEPTH:
            raise WriteError(
                f"{ctx.report.path}: more than {MAX_DEPTH} links hang on each other, which MuJoCo cannot read"
            )
        level += [(child, depth + 1) for child in body.children]


# ------------------------------------------------------------------------------------------------------------ inertials

MIN_BODY_MASS = 1e-6
"""Mass of moving bodies without mass [kg]."""
MIN_BODY_INERTIA = 1e-9
"""Moments of inertia of moving bodies without mass [kg m2]."""
_MASS_THRESHOLD = 1e-14
"""Mass [kg] below which MuJoCo treats a body as massless, with a margin."""
_DIAGONALIZATION_TOLERANCE = 1e-11
"""Upper bound of the relative error of MuJoCo's inertia diagonalization."""
_SOLID_PRIMITIVES = (Box, Capsule, Cylinder, Ellipsoid, Sphere)


def write_inertial(ctx: MjcfContext, body: MjcfBody, parent: Element) -> None:
    """Write the `<inertial>` of a body; omitted if MuJoCo infers the same from the geoms.

    Invalid inertias are replaced by the nearest admissible ones; moving bodies without mass get a minimal one.
    """
    link = body.link
    inertial = None if link is None else link.inertial
    if inertial is None or not _is_valid_inertial(inertial):
        if link is not None and inertial is not None:
            ctx.report_dropped(link, "its inertia", "its numbers are no mass and inertia at all")
        if needs_mass(body):
            _write_minimal_inertial(ctx, body, parent)
        return
    assert link is not None  # it has an inertia
    axes = ctx.use_attribute(link, mjcf.INERTIA_AXES)
    if link.inertial_is_computed:
        if is_inferred_from_geoms(ctx, link):
            return
        how = "the numbers that follow from them are written"
        ctx.report_approximated(link, "that its inertia is computed from its shapes", how)
    inertial = _nearest_valid_inertial(ctx, body, link, inertial)
    element = parent.add_child("inertial", mass=format_number(inertial.mass), pos=vector_text(inertial.center))
    matrix = inertial.inertia
    if axes is not None:
        turn = quaternion_to_matrix(axes)
        moments = np.diag(turn.T @ matrix @ turn)
        element.set_attributes({"quat": format_numbers(axes), "diaginertia": format_numbers(moments.tolist())})
        return
    noise = ROUNDING_NOISE * float(np.abs(matrix).max())
    products = (float(matrix[0, 1]), float(matrix[0, 2]), float(matrix[1, 2]))
    off_diagonal = [p if abs(p) > noise else 0.0 for p in products]
    if any(off_diagonal):
        element.set_attributes({"fullinertia": format_numbers([*np.diag(matrix).tolist(), *off_diagonal])})
    else:
        element.set_attributes({"diaginertia": format_numbers(np.diag(matrix).tolist())})


def _is_valid_inertial(inertial: Inertial) -> bool:
    numbers_given = [inertial.mass, *inertial.center.tolist(), *inertial.inertia.ravel().tolist()]
    return bool(np.isfinite(numbers_given).all()) and inertial.mass > _MASS_THRESHOLD


def needs_mass(body: MjcfBody) -> bool:
    """Whether MuJoCo refuses a body without mass: the body has joints and no mass is rigidly attached."""
    if not body.joints:
        return False
    stack = [body]
    while stack:
        current = stack.pop()
        if current.link is not None and current.link.inertial is not None and _is_valid_inertial(current.link.inertial):
            return False
        stack += [child for child in current.children if not child.moves]
    return True


def _write_minimal_inertial(ctx: MjcfContext, body: MjcfBody, parent: Element) -> None:
    """Write `MIN_BODY_MASS` and `MIN_BODY_INERTIA` and report the approximation."""
    parent.add_child(
        "inertial", mass=format_number(MIN_BODY_MASS), pos="0 0 0", diaginertia=format_numbers([MIN_BODY_INERTIA] * 3)
    )
    if body.link is not None:
        how = (
            f"MuJoCo wants every body that moves to have one; {MIN_BODY_MASS:g} kg and {MIN_BODY_INERTIA:g} kg m2 "
            "are written"
        )
        ctx.report_approximated(body.link, "that it has no mass", how)


# ---------------------------------------------------------------------------- projection of inertias to admissible ones


def _nearest_valid_inertial(ctx: MjcfContext, body: MjcfBody, link: Link, inertial: Inertial) -> Inertial:
    """Inertial with the nearest principal moments that MuJoCo accepts; reports changes above rounding."""
    matrix = (inertial.inertia + inertial.inertia.T) / 2
    is_diagonal = not (matrix[0, 1] or matrix[0, 2] or matrix[1, 2])
    values, axes = (np.diag(matrix).copy(), np.eye(3)) if is_diagonal else np.linalg.eigh(matrix)
    slack = 0.0 if is_diagonal else _DIAGONALIZATION_TOLERANCE * float(np.abs(values).max())
    mended = _nearest_valid_moments(values, slack, must_be_positive=bool(body.joints) or not is_diagonal)
    if np.array_equal(mended, values):
        return Inertial(inertial.mass, inertial.center, matrix)
    if float(np.abs(mended - values).max()) > 1e-9 * float(np.abs(values).max()):
        before, after = (", ".join(f"{v:.6g}" for v in moments) for moments in (values, mended))
        how = f"no real body has the principal moments {before} kg m2; {after} are written, which MuJoCo takes"
        ctx.report_approximated(link, "its inertia", how)
    return Inertial(inertial.mass, inertial.center, axes @ np.diag(mended) @ axes.T)


def _nearest_valid_moments(moments: Array, tolerance: float, *, must_be_positive: bool) -> Array:
    """Principal moments (3,) near the given ones that satisfy the triangle inequality within a tolerance [kg m2]."""
    result = moments.copy()
    floor = max(1e-6 * float(result.max()), MIN_BODY_INERTIA * 1e-3) if must_be_positive else 0.0
    if float(result.max()) <= 0.0 and must_be_positive:
        return np.full(3, MIN_BODY_INERTIA)
    if float(result.min()) <= (1e-14 if must_be_positive else -1e-300):
        result = np.maximum(result, floor)
    for _ in range(50):
        largest = int(np.argmax(result))
        others = [i for i in range(3) if i != largest]
        excess = float(result[largest] - result[others].sum())
        if excess <= -tolerance or (tolerance == 0.0 and result[others[0]] + result[others[1]] >= result[largest]):
            return result
        step = (excess + 2 * tolerance) / 3 * (1 + 1e-12) + 1e-300
        result[others] += step
        result[largest] -= step
    return np.full(3, float(result.mean()))


# ----------------------------------------------------------------------------- inertias that MuJoCo computes from geoms


def is_inferred_from_geoms(ctx: MjcfContext, link: Link) -> bool:
    """Whether a computed inertia equals the inertia that MuJoCo infers from the link's geoms (relative 1e-12)."""
    if link.inertial is None or not link.inertial_is_computed:
        return False
    if any(s.attributes.get(mjcf.attribute_key(mjcf.SHELLINERTIA)) for s in link.shapes):
        return False
    parts = []
    for shape in link.shapes:
        density = geom_density(shape)
        if density is None or id(shape) not in ctx.geoms:
            return False
        mass = geometry_mass_properties(shape.geometry, density) if density > 0 else None
        if mass is not None:
            parts.append((mass, shape.pose))
    found = combine_inertials(parts)
    if found is None:
        return False
    scale = float(np.abs(link.inertial.inertia).max())
    return (
        abs(found.mass - link.inertial.mass) <= 1e-12 * link.inertial.mass
        and float(np.abs(found.center - link.inertial.center).max()) <= 1e-12
        and float(np.abs(found.inertia - link.inertial.inertia).max()) <= 1e-12 * scale
    )


def geom_density(shape: Shape) -> float | None:
    """Density [kg/m3] of a primitive geom given by density or mass; 0 if massless, None if unknown."""
    if shape.mass == 0.0 or shape.density == 0.0:
        return 0.0
    if not isinstance(shape.geometry, _SOLID_PRIMITIVES):
        return 0.0 if isinstance(shape.geometry, Plane) else None
    if shape.mass is not None:
        unit = geometry_mass_properties(shape.geometry, 1.0)
        return None if unit is None else shape.mass / unit.mass
    return shape.density


# ------------------------------------------------------------------------------------------------------- sleep policies

SLEEP_NEVER = "never"
ElementRef = tuple[str, str]
"""Tag and name of an element that a tendon path refers to."""


def sleep_policy(ctx: MjcfContext, body: MjcfBody, link: Link) -> str | None:
    """MuJoCo's `sleep` attribute of a body; None, with a report, for bodies that are not the root of a moving tree."""
    sleep = ctx.use_attribute(link, mjcf.SLEEP, "") or ("init" if link.starts_asleep else "")
    if sleep and not (body.joints and (body.parent is None or body.parent.weld_body is None)):
        ctx.report_dropped(link, "how it sleeps", "MuJoCo asks that of the first moving body of a tree only")
        return None
    return sleep or None


def drop_sleep_of_coupled_trees(ctx: MjcfContext) -> None:
    """Remove the sleep policy of trees coupled by tendons with stiffness or damping, which MuJoCo refuses.

    Elements must already have their names.
    """
    sleeping = [
        b for b in iterate_bodies(ctx) if b.element and b.element.attributes.get(mjcf.SLEEP, SLEEP_NEVER) != SLEEP_NEVER
    ]
    if not sleeping:
        return
    tree_of = {thing: id(tree) for tree in _tree_root_elements(ctx) for thing in _named_elements(tree)}
    tied: set[int] = set()
    for tendon in ctx.section(mjcf.TENDON).children:
        if isinstance(tendon, Element) and _has_spring_or_damper(tendon):
            trees = {tree_of[thing] for thing in _tendon_path(tendon) if thing in tree_of}
            tied |= trees if len(trees) > 1 else set()
    for body in sleeping:
        assert body.element is not None  # or it would not be in the list
        assert body.link is not None  # only links are told how to sleep
        if id(body.element) in tied:
            del body.element.attributes[mjcf.SLEEP]
            ctx.report_dropped(
                body.link, "how it sleeps", "MuJoCo lets nothing sleep that a springy tendon ties to others"
            )


def _tree_root_elements(ctx: MjcfContext) -> Iterator[Element]:
    """Elements of the first moving body of each kinematic tree."""
    stack = list(ctx.root_bodies)
    while stack:
        body = stack.pop()
        if body.joints and body.element is not None:
            yield body.element
        else:
            stack += body.children


def _named_elements(element: Element) -> Iterator[ElementRef]:
    stack = [element]
    while stack:
        inside = [child for child in stack.pop().children if isinstance(child, Element)]
        yield from ((child.tag, child.attributes["name"]) for child in inside if "name" in child.attributes)
        stack += inside


def _tendon_path(tendon: Element) -> Iterator[ElementRef]:
    """Tag and name of the elements on a tendon path, such as `<site site="name"/>`."""
    for item in tendon.children:
        if isinstance(item, Element) and item.tag in item.attributes:
            yield item.tag, item.attributes[item.tag]


def _has_spring_or_damper(tendon: Element) -> bool:
    """Whether a tendon has a nonzero stiffness or damping coefficient of any order."""
    texts = (tendon.attributes.get(name, "") for name in ("stiffness", mjcf.DAMPING))
    return any(float(number) != 0.0 for text in texts for number in text.split())
