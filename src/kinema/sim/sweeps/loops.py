"""Loops over tables of parts: what their rows hold, and what their code sees.

The body of a loop is traced once for each kind of part, with symbols for the part's numbers and for what other parts
have; a row of the table says where in memory these are. What parts have lies in the scratch memory of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from kinema.model import Model
from kinema.trace import SCRATCH, Column, Place, Recorder, RowCode, Rows, Table, Value, record_loop, record_spread

from ..arrays import BY_NAME, Owner
from ..settings import Settings
from .columns import PartColumns, PartRow, Targets, by_column
from .found import Found
from .idle import Idle, guarded, trees_of_frames
from .known import KnownPlaces, RowPlaces
from .maths import add
from .own import with_own
from .quantities import Quantity
from .rows import FrameKind, FrameNumbers, LinkKind, link_numbers
from .scratch import Scratch
from .tree import WORLD, Inertia, Link, Node, Parts, Tree, frame_ref, link_ref, root_of

R = TypeVar("R")
Part = Node | Link


class Loops(Scratch):
    """Some frames of a model, whole trees of it, and the links in them; with the world, where that is asked for."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        places: Mapping[str, Place],
        recorder: Recorder,
        tree: Tree,
        frames: Sequence[int] | None = None,
        *,
        outputs: Mapping[str, tuple[Owner, int]] | None = None,
        own: Mapping[int, Mapping[str, Sequence[Value]]] | None = None,
    ) -> None:
        """`own` replaces constants of frames: copies of a part may differ."""
        self.model = model
        self.settings = settings
        self.places = places
        self.recorder = recorder
        self.tree = tree
        self.is_whole = frames is None
        """Whether these are all frames, in a program of their own."""
        frames = range(model.n_frames) if frames is None else frames
        self.nodes = [tree.nodes[f] for f in frames]
        chosen = {WORLD, *frames} if len(frames) == model.n_frames else set(frames)
        self.links = [i for i, f in enumerate(model.links.frame_idx.tolist()) if f in chosen]
        self.owners = {name: (info.owner, info.width) for name, info in BY_NAME.items()} | dict(outputs or {})
        """Of each array what its items belong to, and how many numbers each has."""
        self._own = own or {}
        self.prefix = ""
        """What the names of arrays that are written start with."""
        super().__init__()
        self._stays = False
        self.quantities: list[Quantity[Any]] = []
        self.known = KnownPlaces()
        self._owned: dict[Owner, list[tuple[str, Place, int]]] = {}
        self._items: dict[tuple[Owner, int], dict[str, Place]] = {}
        self._constants: dict[tuple[int, str], dict[str, Any]] = {}
        self._frame_numbers = FrameNumbers(model)
        self._frame_rows: dict[Any, list[PartColumns]] = {}
        self.found: list[Found] = []
        self._code: RowCode | None = None
        of_frames = trees_of_frames(model)
        self.trees = sorted({of_frames[f] for f in frames})
        """The numbers of its trees."""
        self.idle = Idle(model, self.take(len(set(of_frames)))) if settings.islands else None
        self.masses: Quantity[Inertia] | None = None
        """The inertias of frames, where they differ between environments."""

    @property
    def code(self) -> RowCode:
        """The code that is being traced."""
        assert self._code is not None, "what parts have is known only to the code of a part"
        return self._code

    # ----------------------------------------------------------------------------------------------------- loops

    def loop(self, name: str, rows: Rows, body: Callable[[RowCode], None], chosen: Place | None = None) -> None:
        """A loop over rows; perhaps only over those of a list, if no other does anything."""

        def run(code: RowCode) -> None:
            self._code = code
            guarded(code, body)
            self._code = None

        record_loop(self.recorder, name, rows, run, stays=self._stays, chosen=chosen)

    def spread(
        self,
        name: str,
        rows: Rows,
        tests: Sequence[Callable[[RowCode], tuple[Value, Value]]],
        work: Callable[[RowCode], None],
    ) -> None:
        """What is to be done for those rows for which the first of two numbers is below the second, in all tests."""

        def run(code: RowCode, body: Callable[[RowCode], Any]) -> Any:
            self._code = code
            found = body(code)
            self._code = None
            return found

        own = [partial(run, body=test) for test in tests]
        record_spread(self.recorder, name, rows, own, partial(run, body=work))

    @property
    def stays(self) -> bool:
        """Whether what is recorded stays loops."""
        return self._stays

    @contextmanager
    def staying(self, stays: bool = True) -> Iterator[None]:
        """What is recorded meanwhile stays loops, also where all else becomes a straight line."""
        before, self._stays = self._stays, stays or self._stays
        yield
        self._stays = before

    def each_dofs(self, name: str, body: Callable[[Node], None]) -> None:
        """The degrees of freedom of each frame."""
        self.loop(name, self.frame_rows(self.nodes), lambda code: body(self.node(code)))

    def places_of_dofs(self, quantity: Quantity[Any]) -> dict[int, Place]:
        """Where each degree of freedom has its number of a quantity."""
        starts = {node.index: quantity.places[node.here].row for node in self.nodes}
        return {dof: Place(SCRATCH, starts[node.index] + k) for node in self.nodes for k, dof in enumerate(node.dofs)}

    def vector(self, name: str) -> Quantity[list[Value]]:
        """A number for each degree of freedom, one behind the other."""
        made: Quantity[list[Value]] = self.quantity(name)
        made.make_rooms({node.here: [0.0] * len(node.dofs) for node in self.nodes})
        return made

    def start_of(self, quantity: Quantity[Any]) -> int:
        """Where what frames have, one behind the other, starts."""
        return quantity.places[self.nodes[0].here].row

    def row(self, kind: Any, targets: Targets, own: Mapping[str, Place], constants: Mapping[str, Any]) -> PartRow:
        """A row that finds everything that the parts it speaks of have."""
        found = RowPlaces(own, targets, self.known, self._of_owner(Owner.ENVIRONMENT, 0))
        return PartRow(kind, found, constants, targets=targets)

    def frame_row(self, node: Node, beside: int | None = None) -> PartRow:
        """A row of one frame, and perhaps of a link that is looked at beside it."""
        kind = FrameKind.of(node, tuple(c.name for c in self.found if c.touches(node)))
        targets = {"": node.here, "above ": node.above, "root ": node.root}
        if beside is not None:
            targets["beside "] = link_ref(beside)
        own = self.arrays_of(Owner.COORDINATE, node.qs.start) | self.arrays_of(Owner.DOF, node.dofs.start)
        for made in self.found:
            own |= made.places_of(node)
        own |= self.mark_of(node.index)
        return self.row(kind, targets, own, self.numbers_of(node))

    def frame_rows(self, nodes: Sequence[Node], beside: int | None = None) -> Rows:
        """Rows of frames, by column: of the same frames, and as long as they find nothing new, they are made once."""
        if self._own:
            return [self.frame_row(node, beside) for node in nodes]
        marked = self.idle is not None and not self.idle.paused
        key = tuple(node.index for node in nodes), beside, len(self.found), marked
        if key not in self._frame_rows:
            self._frame_rows[key] = self.by_column([self.frame_row(node, beside) for node in nodes])
        return Table([group.again() for group in self._frame_rows[key]])

    def part_columns(
        self, kind: Any, at: Any, targets: Mapping[str, Parts], own: Mapping[str, Column], **more: Any
    ) -> PartColumns:
        """Rows by column that find everything that the parts they speak of have."""
        numbers = more.pop("numbers", {})
        return PartColumns(kind, at, own, numbers, targets, self.known, self._of_owner(Owner.ENVIRONMENT, 0), **more)

    def by_column(self, rows: Sequence[PartRow]) -> list[PartColumns]:
        """Rows by column, to be used again and again."""
        return by_column(rows, self.known, self._of_owner(Owner.ENVIRONMENT, 0))

    def mark_of(self, frame: int) -> dict[str, Place]:
        """Where rows of a frame look whether there is anything to do for its tree."""
        return {} if self.idle is None else self.idle.of_frame(frame)

    def marks_of_dofs(self) -> dict[int, dict[str, Place]]:
        """Likewise, of all degrees of freedom."""
        return {dof: self.mark_of(node.index) for node in self.nodes for dof in node.dofs}

    def numbers_of(self, node: Node, word: str = "") -> dict[str, Any]:
        """The constants of a frame, under names that start with a word; of one that is not the row's, its pose."""
        if (node.index, word) not in self._constants:
            known: dict[str, Any] = self._frame_numbers.of(node, pose_only=bool(word))
            known = {**with_own(self, "frame", node.index, known), **self._own.get(node.index, {})}
            self._constants[node.index, word] = {word + name: values for name, values in known.items()}
        return self._constants[node.index, word]

    def link_row(self, link: int) -> PartRow:
        """A row of one link."""
        links, parent = self.model.links, int(self.model.links.parent_idx[link])
        frames = {"frame ": int(links.frame_idx[link]), "above frame ": _frame(self.model, parent)}
        targets = {"": link_ref(link), "root ": link_ref(root_of(self.model, link))}
        targets |= {word: frame_ref(frame) for word, frame in frames.items()}
        if parent >= 0:
            targets["above "] = link_ref(parent)
        kind = LinkKind(
            moves=frames["frame "] != WORLD,
            lifted=bool(links.gravity_scale[link] != 1.0),
            massive=bool(links.inertial_mass[link]),
            held=parent >= 0,
            jointed=frames["frame "] != frames["above frame "],
        )
        numbers = with_own(self, "link", link, link_numbers(self.model, link))
        return self.row(kind, targets, self.arrays_of(Owner.LINK, link), numbers)

    def arrays_of_dof(self, dof: int) -> dict[str, Place]:
        """Where the arrays of a degree of freedom start, and those of its coordinate."""
        q = int(self.model.dofs.q_idx[dof])
        own = {} if q < 0 else self.arrays_of(Owner.COORDINATE, q)
        return own | self.arrays_of(Owner.DOF, dof)

    def arrays_of(self, owner: Owner, item: int) -> dict[str, Place]:
        """Where the arrays of an owner start for one of its items."""
        return dict(self._of_owner(owner, item))

    def _of_owner(self, owner: Owner, item: int) -> Mapping[str, Place]:
        """Likewise; found once, for rows ask often."""
        if owner not in self._owned:
            own = ((name, place, *self.owners[name]) for name, place in self.places.items() if name in self.owners)
            self._owned[owner] = [(name, place, width) for name, place, whose, width in own if whose is owner]  # ty: ignore[invalid-assignment]
        if (owner, item) not in self._items:
            self._items[owner, item] = {
                name: Place(place.arena, place.row + item * width) for name, place, width in self._owned[owner]
            }
        return self._items[owner, item]

    def node(self, code: RowCode, word: str = "") -> Node:
        """A frame of a row, in symbols."""
        kind: FrameKind = code.kind if isinstance(code.kind, FrameKind) else dict(code.kind)[word]  # type: ignore[call-overload]
        flat = code.numbers(f"{word}rotation")
        node = Node(
            here=frame_ref(word),
            above=frame_ref("above "),
            motion=kind.motion,
            position=code.numbers(f"{word}position"),
            rotation=[flat[3 * i : 3 * i + 3] for i in range(3)],
            axis=kind.axis,
            pitch=code.number(f"{word}pitch"),
            reference=code.number(f"{word}reference"),
            inverted=kind.inverted,
            qs=range(kind.n_qs),
            dofs=range(kind.n_dofs),
            sprung=kind.sprung,
            per_inertia=kind.per_inertia,
            bears_weight=kind.bears_weight,
            limit_power=kind.limit_power,
            root=link_ref("root "),
            beside=link_ref("beside "),
        )
        if not kind.bodied:
            return node
        if self.masses is not None and not word:
            node.inertia = self.masses[node.here]
            return node
        mass, x, y, z, xx, xy, xz, yy, yz, zz = code.numbers(f"{word}inertia")
        node.inertia = Inertia(mass, (x, y, z), ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
        return node

    def link(self, code: RowCode) -> Link:
        """The link of a row, in symbols."""
        kind = code.kind
        assert isinstance(kind, LinkKind)
        mass, center = code.number("mass"), code.numbers("center")
        ratio: Value = 1.0
        if "mass_shift" in self.settings.per_env:
            mass = mass + code.read("mass_shift")
            ratio = mass * code.number("per mass") if kind.massive else 1.0
        if "com_shift" in self.settings.per_env:
            center = add(center, code.array("com_shift", 3))
        flat, about, axes = (code.numbers(name) for name in ("rotation", "inertia", "principal"))
        return Link(
            here=link_ref(""),
            frame=frame_ref("frame "),
            above=link_ref("above ") if kind.held else None,
            above_frame=frame_ref("above frame "),
            root=link_ref("root "),
            moved_by=frame_ref("frame ") if kind.jointed else None,
            position=code.numbers("position"),
            rotation=[flat[3 * i : 3 * i + 3] for i in range(3)],
            mass=mass,
            center=center,
            inertia=[[ratio * x for x in about[3 * i : 3 * i + 3]] for i in range(3)],
            principal=[axes[3 * i : 3 * i + 3] for i in range(3)],
            gravity_scale=code.number("gravity_scale"),
            moves=kind.moves,
            lifted=kind.lifted,
        )

    # ----------------------------------------------------------------------------------------------------- arrays

    def read(self, array: str, item: int = 0) -> Value:
        """A number of the environment as a whole."""
        return self.recorder.read(array, item) if self._code is None else self._code.read(array, item)

    def of(self, array: str, part: Part) -> list[Value]:
        """The numbers of an array that belong to a part."""
        info = BY_NAME.get(array)
        if info is None or info.arena(self.settings) is None:
            return self.code.numbers(array)
        if isinstance(part, Link):
            return self.code.array(array, info.width)
        items = part.qs if info.owner is Owner.COORDINATE else part.dofs
        return self.code.array(array, info.width * len(items))

    def keeps(self, array: str) -> bool:
        """Whether there is such an array to write to."""
        return self.prefix + array in self.places

    def write(self, array: str, part: Part | None, values: Sequence[Value]) -> None:
        """Store the numbers of an array that belong to a part, or to the environment as a whole."""
        if part is None:
            self.recorder.write(self.prefix + array, values)
        else:
            self.code.write(self.prefix + array, values)

    def quantity(self, name: str) -> Quantity[Any]:
        """Something that no part has yet."""
        made: Quantity[Any] = Quantity(self, f"{name} {len(self.quantities)}")
        self.quantities.append(made)
        return made


def _frame(model: Model, link: int) -> int:
    return WORLD if link < 0 else int(model.links.frame_idx[link])
