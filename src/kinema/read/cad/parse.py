"""From JSON values to the objects of a CAD snapshot, in SI units."""

from __future__ import annotations

from kinema.foundation import Diagnostics, ReadError

from .elements import Snapshot
from .json_text import JsonCursor, parse_json
from .parse_joint import parse_joint, parse_motion_link, parse_rigid_group
from .parse_occurrence import parse_occurrence, parse_root
from .schema import LENGTH_UNITS, MARKER, MARKER_KEY, UNITS, VERSION


def parse_snapshot(data: bytes, file: str, diagnostics: Diagnostics) -> Snapshot:
    """The snapshot in a file; a `ReadError` where it is none, or of a version to come."""
    value, repeated = parse_json(data, file)
    if not isinstance(value, dict) or value.get(MARKER_KEY) != MARKER:
        raise ReadError(f'{file}: this is no CAD snapshot: it does not begin with {{"{MARKER_KEY}": "{MARKER}"}}')
    cursor = JsonCursor(value, file, "", diagnostics)
    if repeated:
        cursor.error("repeated-field", f"the field {repeated!r:.60} stands twice in one object; the last one counts")
    _check_version(cursor)
    cursor.scale = LENGTH_UNITS[UNITS[_units(cursor)]]
    snapshot = Snapshot(
        place=cursor.place(),
        name=cursor.text("name"),
        up=cursor.choice("up", ("z", "y"), "z"),
        notes=cursor.texts("notes"),
    )
    source = cursor.object("source")
    snapshot.source = {} if source is None else source.value
    root = cursor.object("root")
    if root is not None:
        snapshot.root = parse_root(root)
    snapshot.occurrences = [o for o in map(parse_occurrence, cursor.objects("occurrences")) if o is not None]
    joints = {c.number_in_list: parse_joint(c) for c in cursor.objects("joints")}
    snapshot.joints = list(joints.values())
    snapshot.rigid_groups = [parse_rigid_group(c) for c in cursor.objects("rigid_groups")]
    links = (parse_motion_link(c, joints) for c in cursor.objects("motion_links"))
    snapshot.motion_links = [link for link in links if link is not None]
    snapshot.extras = cursor.finish()
    return snapshot


def _check_version(cursor: JsonCursor) -> None:
    cursor.seen.add(MARKER_KEY)
    version = cursor.get("version")
    if version is None:
        raise ReadError(f'{cursor.file}: the snapshot has no "version"')
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ReadError(f"{cursor.file}: version is {version!r:.40}; a whole number is expected")
    if version > VERSION:
        raise ReadError(
            f"{cursor.file}: the snapshot is of version {version}, newer than the {VERSION} that is read; update kinema"
        )


def _units(cursor: JsonCursor) -> str:
    """The units; a snapshot without them is not guessed at."""
    text = "".join(cursor.text("units").split())
    if text not in UNITS:
        expected = " or ".join(f'"{u}"' for u in UNITS)
        raise ReadError(f"{cursor.file}: units: {text!r:.40} is not known; {expected} is expected")
    return text
