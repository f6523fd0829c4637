"""Converts a CAD snapshot to a robot description: links with shapes and combined mass properties, joints, ground."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Diagnostics, Pose, unique_name
from kinema.description import Base, Frame, Inertial, Joint, JointKind, Link, Mesh, Robot, Shape, VisualMaterial
from kinema.geometry import (
    MassProperties,
    combine_mass_properties,
    inertia_from_second_moment,
    transform_mass_properties,
)

from ..resolve import Resolved, Resolver
from .elements import (
    FORMAT,
    ROOT_PATH,
    BodyElement,
    JointElement,
    MeshElement,
    OccurrenceElement,
    PhysicalElement,
    Snapshot,
)
from .grouping import LinkGrouping, RigidBody, check_references, is_grounded
from .joints import JointConverter, OccurrencePlacement, add_mimics, unique_joint_names, up_axis_pose

# -- mass properties ---------------------------------------------------------------------------------------------------

_PRINCIPAL_MOMENT_TOLERANCE = 1e-6
"""Tolerance of principal moments relative to the largest."""
_SUM_TOLERANCE = 1e-3
"""Relative tolerance between the mass properties of an occurrence and the sum of its bodies."""
_BOUNDING_BOX_TOLERANCE = 1e-2
"""Maximum distance of a centre of mass outside the bounding box, relative to its diagonal."""


def combined_inertial(
    occurrences: Sequence[OccurrenceElement], pose: Pose, diagnostics: Diagnostics
) -> Inertial | None:
    """Combined mass, centre of mass and inertia of occurrences in the frame `pose`; None without mass."""
    parts = [part for member in occurrences if (part := _occurrence_mass_properties(member, diagnostics)) is not None]
    if not parts or not sum(part.mass for part in parts) > 0:
        return None
    inverse = pose.inverse()
    whole = transform_mass_properties(combine_mass_properties(parts), inverse.rotation, inverse.position)
    return Inertial(whole.mass, whole.center, whole.inertia)


def _occurrence_mass_properties(occurrence: OccurrenceElement, diagnostics: Diagnostics) -> MassProperties | None:
    """Mass properties of the bodies of one occurrence in the root frame, with consistency checks.

    Values stated for the occurrence take precedence over the sum of its bodies.
    """
    name = occurrence.name or "the root component"
    stated = occurrence.physical and _mass_properties_in_root(occurrence.physical, occurrence.pose, name, diagnostics)
    bodies = [
        _mass_properties_in_root(body.physical, occurrence.pose, f'{name}" body "{body.name}', diagnostics)
        for body in occurrence.bodies
        if body.physical is not None
    ]
    complete = bool(bodies) and len(bodies) == len(occurrence.bodies)
    total = combine_mass_properties(bodies) if bodies else None
    if stated is None:
        if occurrence.bodies and not complete:
            which = "no mass" if not bodies else f"a mass for {len(bodies)} of {len(occurrence.bodies)} bodies only"
            hint = "give the bodies a physical material"
            message = f'occurrence "{name}" has {which}'
            diagnostics.warning(f"{FORMAT}.no-mass", message, hint=hint, origin=occurrence.origin)
        result = total
    else:
        if complete and total is not None:
            _compare_with_sum(stated, total, occurrence, name, diagnostics)
        result = stated
    if result is not None:
        _check_center_in_box(result, occurrence, name, diagnostics)
    return result  # ty: ignore[invalid-explicit-return]


def _mass_properties_in_root(
    element: PhysicalElement, pose: Pose, name: str, diagnostics: Diagnostics
) -> MassProperties:
    """Mass properties about the centre of mass in the root frame; checks the principal moments."""
    shift = element.mass * np.outer(element.center, element.center)
    about_center = element.inertia - inertia_from_second_moment(shift)
    if element.principal is not None:
        _check_principal_moments(element, about_center, name, diagnostics)
    properties = MassProperties(element.mass, element.center, about_center)
    return (
        transform_mass_properties(properties, pose.rotation, pose.position)
        if element.frame == "component"
        else properties
    )


def _check_principal_moments(
    element: PhysicalElement, about_center: Array, name: str, diagnostics: Diagnostics
) -> None:
    """Warn if the eigenvalues of the inertia differ from the stated principal moments, with a likely cause."""
    expected = np.sort(element.principal) if element.principal is not None else np.zeros(3)
    # rounding error of the parallel axis theorem
    noise = 64 * np.finfo(float).eps * float(np.abs(element.inertia).max())
    tolerance = _PRINCIPAL_MOMENT_TOLERANCE * float(np.abs(expected).max()) + noise
    error = _principal_moment_error(about_center, expected)
    if error <= tolerance:
        return
    hint = "use a higher accuracy in the CAD program"
    flipped = element.inertia * (2 * np.eye(3) - 1)
    shift = inertia_from_second_moment(element.mass * np.outer(element.center, element.center))
    if _principal_moment_error(flipped - shift, expected) <= tolerance:
        hint = "the products of inertia have the opposite sign: write them in tensor sign, -integral of x y dm"
    elif _principal_moment_error(element.inertia, expected) <= tolerance:
        hint = "the inertia seems to be about the centre of mass: write it about the origin"
    message = (
        f'"{name}": the principal moments of its inertia are {error:.3g} kg m2 from those that the CAD program gives '
        f"({error / max(float(np.abs(expected).max()), 1e-300):.2g} of the largest)"
    )
    diagnostics.warning(f"{FORMAT}.principal-moments", message, hint=hint, origin=element.origin)


def _principal_moment_error(tensor: Array, principal: Array) -> float:
    return float(np.abs(np.linalg.eigvalsh(tensor) - principal).max())


def _compare_with_sum(
    stated: MassProperties, total: MassProperties, occurrence: OccurrenceElement, name: str, diagnostics: Diagnostics
) -> None:
    """Warn if the stated mass properties of an occurrence differ from the sum of its bodies."""
    size = float(np.sqrt(np.abs(total.inertia).max() / total.mass)) if total.mass > 0 else 0.0
    differences = []
    if abs(stated.mass - total.mass) > _SUM_TOLERANCE * max(stated.mass, total.mass):
        differences.append(f"mass {stated.mass:g} kg for {total.mass:g} kg")
    elif float(np.linalg.norm(stated.center - total.center)) > _SUM_TOLERANCE * max(size, 1e-9) + 1e-9:
        differences.append(f"centre of mass {np.linalg.norm(stated.center - total.center):.3g} m away")
    elif (
        float(np.abs(stated.inertia - total.inertia).max())
        > _SUM_TOLERANCE * float(np.abs(total.inertia).max()) + 1e-15
    ):
        differences.append("another inertia")
    if differences:
        message = (
            f'occurrence "{name}" and its bodies disagree: the occurrence has {differences[0]}; the occurrence counts'
        )
        hint = "hidden bodies, or a frame or unit mixed up by the exporter"
        diagnostics.warning(f"{FORMAT}.mass-disagrees", message, hint=hint, origin=occurrence.origin)


def _check_center_in_box(
    properties: MassProperties, occurrence: OccurrenceElement, name: str, diagnostics: Diagnostics
) -> None:
    """Warn if the centre of mass lies outside the bounding box of the bodies (mixed-up frame or unit)."""
    if occurrence.bounding_box is None or properties.mass <= 0:
        return
    low, high = occurrence.bounding_box
    outside = np.maximum(np.maximum(low - properties.center, properties.center - high), 0.0)
    slack = _BOUNDING_BOX_TOLERANCE * float(np.linalg.norm(high - low)) + 1e-6
    distance = float(np.linalg.norm(outside))
    if distance > slack:
        message = f'occurrence "{name}": its centre of mass lies {distance:.3g} m outside the box around its bodies'
        hint = "the exporter mixed up a frame or a unit"
        diagnostics.warning(f"{FORMAT}.center-outside", message, hint=hint, origin=occurrence.origin)


# -- conversion of the snapshot ----------------------------------------------------------------------------------------


def convert_snapshot(
    snapshot: Snapshot, diagnostics: Diagnostics, *, resolve: Resolver, file: str, fallback: str = "assembly"
) -> Robot:
    """Convert a CAD snapshot to a robot.

    Args:
        snapshot: the assembly; invalid references are removed in place.
        diagnostics: where to report.
        resolve: finds meshes.
        file: the file that contains the references to meshes.
        fallback: the robot's name where the snapshot gives none.
    """
    return _SnapshotConverter(snapshot, diagnostics, resolve, file).convert(fallback)


_MAX_NOTES = 100


def _omitted_notes(notes: Sequence[str]) -> list[str]:
    return [f"... and {len(notes) - _MAX_NOTES} more notes"] if len(notes) > _MAX_NOTES else []


@dataclass(slots=True, eq=False)
class _SnapshotConverter:
    """Conversion of one snapshot; `convert` builds `robot`."""

    snapshot: Snapshot
    diagnostics: Diagnostics
    resolve: Resolver
    file: str
    robot: Robot = field(init=False)
    placements: dict[str, OccurrencePlacement] = field(default_factory=dict)
    resolved_files: dict[str, Resolved] = field(default_factory=dict)
    used_names: set[str] = field(default_factory=set)
    by_path: dict[str, OccurrenceElement] = field(default_factory=dict)

    def convert(self, fallback: str) -> Robot:
        """Build the robot: attributes, links, joints, ground; reports unconnected links."""
        snapshot = self.snapshot
        self.robot = Robot(
            name=snapshot.name or fallback,
            name_is_generated=not snapshot.name,
            origin=snapshot.origin,
            extras=list(snapshot.extras),
            format=FORMAT,
            diagnostics=self.diagnostics,
            pose=up_axis_pose(snapshot.up),
        )
        self.robot.attributes[f"{FORMAT}:up"] = snapshot.up
        if snapshot.source:
            self.robot.attributes[f"{FORMAT}:source"] = snapshot.source
        for note in [*snapshot.notes[:_MAX_NOTES], *_omitted_notes(snapshot.notes)]:
            self.diagnostics.warning(
                f"{FORMAT}.exporter-note", f"the exporter says: {note:.500}", origin=snapshot.origin
            )
        joints = check_references(snapshot, self.diagnostics)
        self.by_path = {o.path: o for o in snapshot.occurrences}
        self._add_links(LinkGrouping(snapshot, joints, self.diagnostics).bodies())
        self._add_joints(joints)
        self._fix_grounded()
        self._warn_unconnected_links()
        if not self.robot.links:
            self.diagnostics.error(f"{FORMAT}.no-links", "the assembly has no parts", origin=snapshot.origin)
        return self.robot

    # -- links ----------------------------------------------------------------------------------------------------

    def _add_links(self, bodies: Sequence[RigidBody]) -> None:
        """Add a link per rigid body, record the placement of each occurrence, add frames of referenced ones."""
        root = self.snapshot.root
        self.placements[ROOT_PATH] = OccurrencePlacement(None, Pose(), Pose())
        if root.has_mass_or_bodies:
            name = unique_name(root.name or self.robot.name, self.used_names)
            link = self._link(name, [root], root)
            link.name_is_generated = not root.name
            self.placements[ROOT_PATH] = OccurrencePlacement(name, Pose(), Pose())
        count = Counter(body.primary.name for body in bodies)
        for body in bodies:
            lead = body.primary
            name = unique_name(lead.name if count[lead.name] == 1 else lead.path, self.used_names)
            self._link(name, body.members, lead)
            for member in body.members:
                self.placements[member.path] = OccurrencePlacement(name, lead.pose, member.pose)
        taken: set[str] = set()
        for body in bodies:
            for member in body.referenced:
                pose = body.primary.pose.inverse() @ member.pose
                name = unique_name(member.path, taken)
                frame = Frame(name=name, link=self.placements[member.path].link, pose=pose, origin=member.origin)
                self.robot.frames.append(frame)

    def _link(self, name: str, members: Sequence[OccurrenceElement], primary: OccurrenceElement) -> Link:
        """Create the link of a rigid body with inertial and shapes and append it to the robot."""
        link = Link(name=name, origin=primary.origin, pose=primary.pose)
        link.inertial = combined_inertial(members, primary.pose, self.diagnostics)
        link.attributes[f"{FORMAT}:occurrences"] = [m.path for m in members]
        for member in members:
            link.extras += member.extras
            for body in member.bodies:
                link.extras += body.extras
                shape = self._shape(member, body, primary)
                if shape is not None:
                    link.shapes.append(shape)
        self.robot.links.append(link)
        return link

    def _shape(self, member: OccurrenceElement, body: BodyElement, primary: OccurrenceElement) -> Shape | None:
        """Shape of a body relative to the link frame; None for bodies without mesh and hidden bodies."""
        mesh = body.mesh
        if mesh is None:
            return None
        if not body.visible or self._is_hidden(member):
            message = f'body "{body.name}" of "{member.name}" is hidden: it has no shape, its mass counts'
            self.diagnostics.note(f"{FORMAT}.hidden-body", message, origin=body.origin)
            return None
        frame = member.pose if mesh.frame == "component" else Pose()
        material = None
        if body.color is not None or body.material:
            material = VisualMaterial(name=body.material, color=body.color, origin=body.origin)
        return Shape(
            name=body.name,
            origin=body.origin,
            geometry=self._mesh(mesh, member),
            pose=primary.pose.inverse() @ frame,
            material=material,
        )

    def _mesh(self, mesh: MeshElement, member: OccurrenceElement) -> Mesh:
        scale = np.full(3, mesh.scale)
        if mesh.triangles is not None:
            return Mesh(vertices=mesh.triangles.vertices, faces=mesh.triangles.faces, scale=scale)
        found = self._resolve_file(mesh.file)
        if not found:
            message = f'the mesh {mesh.file!r:.200} of "{member.name}" was not found: {found.reason}'
            self.diagnostics.error(f"{FORMAT}.missing-mesh", message, origin=mesh.origin)
        return Mesh(uri=mesh.file, path=str(found.path or ""), scale=scale)

    def _is_hidden(self, occurrence: OccurrenceElement) -> bool:
        """Whether an occurrence or one of its ancestors is hidden."""
        while occurrence.visible and occurrence.parent != ROOT_PATH:
            occurrence = self.by_path[occurrence.parent]
        return not occurrence.visible

    def _resolve_file(self, uri: str) -> Resolved:
        """Resolve the path of a mesh file, cached per reference."""
        if uri not in self.resolved_files:
            found = self.resolve.resolve(uri, self.file)
            try:
                if found.path is not None and not found.path.is_file():
                    found = Resolved(None, "it is not a file")
            except OSError as error:
                found = Resolved(None, error.strerror or "it cannot be read")
            self.resolved_files[uri] = found
        return self.resolved_files[uri]

    # -- joints ---------------------------------------------------------------------------------------------------

    def _add_joints(self, elements: Sequence[JointElement]) -> None:
        links = self.snapshot.motion_links
        converter = JointConverter(self.placements, links, unique_joint_names(elements), self.diagnostics)
        for element in elements:
            self.robot.joints += converter.convert(element)
        add_mimics(links, converter.coordinates, self.diagnostics)
        for group in (*self.snapshot.rigid_groups, *links):
            self.robot.extras += group.extras

    # -- ground ---------------------------------------------------------------------------------------------------

    def _fix_grounded(self) -> None:
        """Fix grounded links: as the fixed base of the robot, or by implicit fixed joints to the base."""
        base = self.placements[ROOT_PATH].link
        grounded = [o for o in self.snapshot.occurrences if is_grounded(o) and o.path in self.placements]
        names = {self.placements[o.path].link for o in grounded}
        to_base = any(None in (j.parent, j.child) for j in self.robot.joints)
        if base is None and len(names) == 1 and not to_base:
            self.robot.root, self.robot.base = names.pop(), Base.FIXED
            return
        if base is not None:
            self.robot.root, self.robot.base = base, Base.FIXED
        taken = {j.name for j in self.robot.joints}
        for link in self.robot.links:
            if link.name in names and link.name != base:
                joint = Joint(kind=JointKind.FIXED, parent=base, child=link.name, parent_pose=link.pose or Pose())
                joint.name = unique_name(f"{link.name}_ground", taken)
                joint.name_is_generated = joint.implicit = True
                joint.origin = link.origin
                self.robot.joints.append(joint)

    def _warn_unconnected_links(self) -> None:
        """Warn about root links of the kinematic forest that nothing connects to the base."""
        tree = self.robot.tree()
        unconnected = set(tree.roots) - {self.robot.root}
        if self.robot.root is None and not any(e.parent is None for e in tree.edges):
            unconnected -= set(tree.roots[:1])  # the robot's own base
        for link in self.robot.links:
            if link.name in unconnected:
                message = f'link "{link.name}" is connected to nothing that holds it'
                hint = "join it to the others in the CAD program, ground it, or leave it out of the export"
                self.diagnostics.warning(f"{FORMAT}.loose-link", message, hint=hint, origin=link.origin)
