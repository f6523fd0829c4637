"""What a CAD snapshot means, in the terms of the description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Base, Frame, Joint, JointKind, Link, Mesh, Robot, Shape, VisualMaterial
from kinema.foundation import Diagnostics, Pose, unique_name
from kinema.read.resolve import Resolved, Resolver

from .elements import BodyElement, JointElement, MeshElement, OccurrenceElement, Snapshot
from .grouping import Grouping, RigidBody, is_grounded
from .joints import JointConverter, Place, base_offset, joint_names
from .masses import link_inertial
from .mimics import add_mimics
from .references import check_references
from .schema import FORMAT, ROOT


def convert_snapshot(
    snapshot: Snapshot, diagnostics: Diagnostics, *, resolve: Resolver, file: str, fallback: str = "assembly"
) -> Robot:
    """The robot that a snapshot describes.

    Args:
        snapshot: the assembly; its references are mended in place.
        diagnostics: where to report.
        resolve: finds meshes.
        file: the file in which the references to meshes stand.
        fallback: the robot's name where the snapshot gives none.
    """
    return _Converter(snapshot, diagnostics, resolve, file).convert(fallback)


_MAX_NOTES = 100


def _rest_of(notes: Sequence[str]) -> list[str]:
    return [f"... and {len(notes) - _MAX_NOTES} more notes"] if len(notes) > _MAX_NOTES else []


@dataclass(slots=True, eq=False)
class _Converter:
    snapshot: Snapshot
    diagnostics: Diagnostics
    resolve: Resolver
    file: str
    robot: Robot = field(init=False)
    places: dict[str, Place] = field(default_factory=dict)
    found: dict[str, Resolved] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    by_path: dict[str, OccurrenceElement] = field(default_factory=dict)

    def convert(self, fallback: str) -> Robot:
        snapshot = self.snapshot
        self.robot = Robot(
            name=snapshot.name or fallback,
            name_is_generated=not snapshot.name,
            origin=snapshot.place,
            extras=list(snapshot.extras),
            format=FORMAT,
            diagnostics=self.diagnostics,
            pose=base_offset(snapshot.up),
        )
        self.robot.attributes[f"{FORMAT}:up"] = snapshot.up
        if snapshot.source:
            self.robot.attributes[f"{FORMAT}:source"] = snapshot.source
        for note in [*snapshot.notes[:_MAX_NOTES], *_rest_of(snapshot.notes)]:
            self.diagnostics.warning(
                f"{FORMAT}.exporter-note", f"the exporter says: {note:.500}", origin=snapshot.place
            )
        joints = check_references(snapshot, self.diagnostics)
        self.by_path = {o.path: o for o in snapshot.occurrences}
        self._links(Grouping(snapshot, joints, self.diagnostics).bodies())
        self._joints(joints)
        self._ground()
        self._say_loose_links()
        if not self.robot.links:
            self.diagnostics.error(f"{FORMAT}.no-links", "the assembly has no parts", origin=snapshot.place)
        return self.robot

    # -- links ----------------------------------------------------------------------------------------------------

    def _links(self, bodies: Sequence[RigidBody]) -> None:
        root = self.snapshot.root
        self.places[ROOT] = Place(None, Pose(), Pose())
        if root.has_matter:
            name = unique_name(root.name or self.robot.name, self.names)
            link = self._link(name, [root], root)
            link.name_is_generated = not root.name
            self.places[ROOT] = Place(name, Pose(), Pose())
        count = Counter(body.lead.name for body in bodies)
        for body in bodies:
            lead = body.lead
            name = unique_name(lead.name if count[lead.name] == 1 else lead.path, self.names)
            self._link(name, body.members, lead)
            for member in body.members:
                self.places[member.path] = Place(name, lead.pose, member.pose)
        taken: set[str] = set()
        for body in bodies:
            for member in body.named:
                pose = body.lead.pose.inverse() @ member.pose
                name = unique_name(member.path, taken)
                frame = Frame(name=name, link=self.places[member.path].link, pose=pose, origin=member.place)
                self.robot.frames.append(frame)

    def _link(self, name: str, members: Sequence[OccurrenceElement], lead: OccurrenceElement) -> Link:
        link = Link(name=name, origin=lead.place, pose=lead.pose)
        link.inertial = link_inertial(members, lead.pose, self.diagnostics)
        link.attributes[f"{FORMAT}:occurrences"] = [m.path for m in members]
        for member in members:
            link.extras += member.extras
            for body in member.bodies:
                link.extras += body.extras
                shape = self._shape(member, body, lead)
                if shape is not None:
                    link.shapes.append(shape)
        self.robot.links.append(link)
        return link

    def _shape(self, member: OccurrenceElement, body: BodyElement, lead: OccurrenceElement) -> Shape | None:
        mesh = body.mesh
        if mesh is None:
            return None
        if not body.visible or self._is_hidden(member):
            message = f'body "{body.name}" of "{member.name}" is hidden: it has no shape, its mass counts'
            self.diagnostics.note(f"{FORMAT}.hidden-body", message, origin=body.place)
            return None
        frame = member.pose if mesh.frame == "component" else Pose()
        material = None
        if body.color is not None or body.material:
            material = VisualMaterial(name=body.material, color=body.color, origin=body.place)
        return Shape(
            name=body.name,
            origin=body.place,
            geometry=self._mesh(mesh, member),
            pose=lead.pose.inverse() @ frame,
            material=material,
        )

    def _mesh(self, mesh: MeshElement, member: OccurrenceElement) -> Mesh:
        scale = np.full(3, mesh.scale)
        if mesh.triangles is not None:
            return Mesh(vertices=mesh.triangles.vertices, faces=mesh.triangles.faces, scale=scale)
        found = self._find(mesh.file)
        if not found:
            message = f'the mesh {mesh.file!r:.200} of "{member.name}" was not found: {found.reason}'
            self.diagnostics.error(f"{FORMAT}.missing-mesh", message, origin=mesh.place)
        return Mesh(uri=mesh.file, path=str(found.path or ""), scale=scale)

    def _is_hidden(self, occurrence: OccurrenceElement) -> bool:
        """Whether an occurrence, or one that it is nested in, is hidden."""
        while occurrence.visible and occurrence.parent != ROOT:
            occurrence = self.by_path[occurrence.parent]
        return not occurrence.visible

    def _find(self, uri: str) -> Resolved:
        if uri not in self.found:
            found = self.resolve.resolve(uri, self.file)
            try:
                if found.path is not None and not found.path.is_file():
                    found = Resolved(None, "it is not a file")
            except OSError as error:
                found = Resolved(None, error.strerror or "it cannot be read")
            self.found[uri] = found
        return self.found[uri]

    # -- joints ---------------------------------------------------------------------------------------------------

    def _joints(self, elements: Sequence[JointElement]) -> None:
        links = self.snapshot.motion_links
        converter = JointConverter(self.places, links, joint_names(elements), self.diagnostics)
        for element in elements:
            self.robot.joints += converter.convert(element)
        add_mimics(links, converter.coordinates, self.diagnostics)
        for group in (*self.snapshot.rigid_groups, *links):
            self.robot.extras += group.extras

    # -- the ground -----------------------------------------------------------------------------------------------

    def _ground(self) -> None:
        """Hold what is grounded: as the robot's base if nothing else holds it, else by a fixed joint to the base."""
        base = self.places[ROOT].link
        held = [o for o in self.snapshot.occurrences if is_grounded(o) and o.path in self.places]
        names = {self.places[o.path].link for o in held}
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

    def _say_loose_links(self) -> None:
        """Warn of links that nothing connects to the rest."""
        tree = self.robot.tree()
        apart = set(tree.roots) - {self.robot.root}
        if self.robot.root is None and not any(e.parent is None for e in tree.edges):
            apart -= set(tree.roots[:1])  # the robot's own base
        for link in self.robot.links:
            if link.name in apart:
                message = f'link "{link.name}" is connected to nothing that holds it'
                hint = "join it to the others in the CAD program, ground it, or leave it out of the export"
                self.diagnostics.warning(f"{FORMAT}.loose-link", message, hint=hint, origin=link.origin)
