"""Compilation of a robot or scene to a library: object file, static and shared library, headers, loader, report."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinema.core import Diagnostics, KinemaError, to_identifier
from kinema.model import Model
from kinema.runtime import (
    LibraryTarget,
    ObjectFile,
    compile_object,
    library_target,
    static_library,
    summarise_elf,
    summarise_wasm,
    wasm_module,
)
from kinema.scene import Scene

from .c_header import c_header
from .cmake_package import cmake_config
from .cpp_header import cpp_header
from .interface import RESERVED_WORDS, Interface
from .javascript_loader import javascript_loader
from .programs import MODEL_FUNCTIONS, LibraryBuilder, LibraryRequest
from .python_loader import python_loader

FUNCTION_NAMES = (*MODEL_FUNCTIONS, "step")
"""Functions that a library can have; `step` comes with `observe`."""
KINEMATIC_FUNCTIONS = frozenset({"fk", "jacobian", "ik"})
"""Functions that need no masses."""
INDEXING_FUNCTIONS = ("ik", "step")
"""Functions with indices that are computed at run time."""
MAX_IK_LINKS = 4
"""Largest number of links for which inverse kinematics is compiled by default."""
STATE_FILE = "{}_state.npz"
"""Name of the file of the initial state, as `SceneState.save` writes it."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledLibrary:
    """Files of a compiled library, its size, and messages."""

    name: str
    target: str
    files: dict[str, Path]
    """Kind of a file (`object`, `static`, `shared`, `header`, `c++`, `python`, `cmake`, `state`, `report`) -> path; of
    WebAssembly `object`, `module`, `javascript`, `header`, `state`, `report`."""
    code_bytes: int
    """Size of machine code and constants [bytes]."""
    stack_bytes: dict[str, int]
    """Function -> upper bound of its stack [bytes]."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Messages of the reader, of the scene, and on what the library leaves out."""

    @property
    def shared(self) -> Path | None:
        """Path of the shared library; None if there is none."""
        return self.files.get("shared")

    def load(self) -> Any:
        """Python module of the library (its generated loader), for the machine that it was compiled for."""
        import importlib.util

        specification = importlib.util.spec_from_file_location(f"_kinema_library_{self.name}", self.files["python"])
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module


def compile_library(  # noqa: PLR0913  one parameter per option
    source: Any,
    out: str | os.PathLike[str],
    *,
    name: str | None = None,
    functions: Sequence[str] | None = None,
    precision: str | None = None,
    target: str = "native",
    contacts: bool | None = None,
    fixed: bool | None = None,
    errors: str = "raise",
    ik_links: Sequence[str] | None = None,
) -> CompiledLibrary:
    """Compile a robot or a scene to a library that needs neither Python nor Kinema.

    Args:
        source: a `Scene` with one environment on a CPU, in the state and with the control modes that the library starts
            with; or a robot, a world or a path, of which a scene is made.
        out: folder for the files; created if it does not exist.
        name: name of the library, a C identifier: prefix of its functions; None for the name of the robot.
        functions: functions of the library, of `FUNCTION_NAMES`; None for all.
        precision: `double` (default for robots) or `single`; of a scene, that of the scene.
        target: `native` for this machine, or `x86-64-v3`, `aarch64`, `thumbv7em`, `riscv64`, `wasm32`.
        contacts: whether shapes touch, default True; of a scene, as the scene says.
        fixed: whether the base of a robot is fixed; None for what its file says.
        errors: of a robot, `raise` for errors of its description, or `keep` to compile the rest, as `Scene.add`.
        ik_links: names of the links for which inverse kinematics is compiled; None for the last link of each chain, or
            for that of the longest chain of robots with more than `MAX_IK_LINKS` chains.

    Returns:
        The files, sizes and messages.
    """
    chosen = library_target(target)
    wanted = _check_functions(functions, chosen)
    scene = _scene_of(
        source, precision, contacts, fixed, errors, chosen, with_masses=not KINEMATIC_FUNCTIONS.issuperset(wanted)
    )
    identifier = _check_name(name if name is not None else to_identifier(scene.entities[0].name))
    _check_target(chosen, scene)
    links = _ik_links(scene.built.model, ik_links) if "ik" in wanted else []
    wanted = [function for function in wanted if function != "ik" or links]
    code = compile_code(LibraryRequest(scene, identifier, wanted, chosen, links))
    return _write_files(Path(out), code, chosen, scene)


@dataclass(frozen=True, slots=True, eq=False)
class LibraryCode:
    """Object file of a library, its C interface, and messages."""

    object_file: ObjectFile
    interface: Interface
    diagnostics: Diagnostics


def compile_code(request: LibraryRequest) -> LibraryCode:
    """Emit and compile the functions of a library; collects the messages of the readers and the scene."""
    diagnostics, scene = Diagnostics(), request.scene
    messages = [item for entity in scene.entities for item in entity.description.diagnostics.items]
    for item in [*messages, *scene.diagnostics.items]:
        if item not in diagnostics.items:
            diagnostics.items.append(item)
    builder = LibraryBuilder(request, diagnostics)
    builder.build()
    text = builder.module.text
    compiled = compile_object(text, request.target)
    _check_symbols(compiled, request.target)
    builder.interface.stack_bytes = stack_sizes(text, compiled, builder.interface, request.target)
    return LibraryCode(compiled, builder.interface, diagnostics)


HEAP_BYTES = 1 << 20
"""Free memory of a WebAssembly module before it grows."""


def link_wasm(code: LibraryCode) -> bytes:
    """WebAssembly module of a library, with the stack that its functions need."""
    stack = max(code.interface.stack_bytes.values(), default=0)
    return wasm_module(summarise_wasm(code.object_file.code), stack, HEAP_BYTES)


# -------------------------------------------------------------------------------------------------------------- checks


def _check_functions(functions: Sequence[str] | None, target: LibraryTarget) -> list[str]:
    """Requested functions in the order of `FUNCTION_NAMES`; KinemaError for those that there are not."""
    if isinstance(functions, str):
        functions = [functions]
    supported = [name for name in FUNCTION_NAMES if name not in INDEXING_FUNCTIONS or target.has_index_conversion]
    wanted = supported if functions is None else list(functions)
    unknown = [name for name in wanted if name not in supported]
    if unknown or not wanted:
        raise KinemaError(
            f"functions: target {target.name} has {', '.join(supported)}, not {', '.join(unknown) or 'none'}"
        )
    return [name for name in supported if name in wanted]


def _check_name(name: str) -> str:
    """Name of a library; KinemaError if it is no identifier of C and C++."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        if name.startswith("_") and re.fullmatch(r"_+[A-Za-z0-9_]+", name):  # made from the name of a robot
            return _check_name(f"robot{name}")
        raise KinemaError(f"name: {name!r} is no identifier of C: letters, digits and underscores, a letter first")
    if name in RESERVED_WORDS:
        raise KinemaError(f"name: {name!r} is a reserved word of C or C++")
    return name


def _scene_of(
    source: Any,
    precision: str | None,
    contacts: bool | None,
    fixed: bool | None,
    errors: str,
    target: LibraryTarget,
    *,
    with_masses: bool,
) -> Scene:
    """Built scene of a source; KinemaError if a given scene cannot be compiled.

    Without masses, joints that move none are accepted with a warning: their armature counts as still to be given.
    """
    if not isinstance(source, Scene):
        default = "double" if "double" in target.precisions else "single"
        scene = Scene(precision=precision or default, contacts=True if contacts is None else contacts, quiet=True)
        scene.add(source, fixed=fixed, errors=errors)
        scene.build(per_env=() if with_masses else ("armature",))
    else:
        scene = source
        if not scene.is_built:
            scene.build()
        given = {
            "precision": (precision, scene.precision),
            "contacts": (contacts, scene.contacts),
            "fixed": (fixed, None),
        }
        for option, (value, own) in given.items():
            if value is not None and value != own:
                raise KinemaError(f"compile_library: {option} is an option for robots: set it in the scene")
    if scene.built.n_envs != 1:
        raise KinemaError(f"compile_library: the scene has {scene.built.n_envs} environments: build it with n_envs=1")
    if scene.built.engine.settings.presence:
        raise KinemaError("compile_library: entities of the scene can be spawned and removed: build it without room")
    if not scene.built.engine.device.is_cpu:
        raise KinemaError('compile_library: the scene is on a GPU: use Scene(device="cpu")')
    if not scene.built.model.n_dofs:
        raise KinemaError("compile_library: nothing in the scene can move, so there is nothing to compile")
    return scene


def _ik_links(model: Model, names: Sequence[str] | None) -> list[int]:
    """Indices of the links for which inverse kinematics is compiled; KinemaError for unknown names."""
    if names is not None:
        wanted = [names] if isinstance(names, str) else list(names)
        known = list(model.links.names)
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise KinemaError(
                f"ik_links: there is no link {', '.join(map(repr, unknown))}; there are {', '.join(known)}"
            )
        return [known.index(name) for name in wanted]
    parents = model.links.parent_idx.tolist()
    lengths = {link: _n_moving_dofs(model, link) for link in range(model.n_links) if link not in parents}
    leaves = [link for link, length in lengths.items() if length]
    return leaves if len(leaves) <= MAX_IK_LINKS else [max(leaves, key=lambda link: lengths[link])]


def _n_moving_dofs(model: Model, link: int) -> int:
    """Number of degrees of freedom of the joints between a link and the world."""
    count = 0
    while link >= 0:
        count += int((model.joints.dof_end - model.joints.dof_start)[model.joints.link_idx == link].sum())
        link = int(model.links.parent_idx[link])
    return count


def _check_target(target: LibraryTarget, scene: Scene) -> None:
    """Raise `KinemaError` for a precision that a target does not support."""
    if scene.precision not in target.precisions:
        raise KinemaError(f"target {target.name}: it has no instructions for {scene.precision} precision: use single")


def _check_symbols(compiled: ObjectFile, target: LibraryTarget) -> None:
    """Raise `KinemaError` if the object file needs functions of other libraries."""
    summary = summarise_elf(compiled.code) if target.is_elf else summarise_wasm(compiled.code)
    undefined = [name for name in summary.undefined if name != "_GLOBAL_OFFSET_TABLE_"]
    if undefined:
        raise KinemaError(
            f"target {target.name}: its processor lacks instructions that are needed: {', '.join(undefined)}"
        )


_DEFINITION = re.compile(r"^define (?:internal )?void @([\w.]+)\(", re.MULTILINE)
_CALL = re.compile(r"call void @([\w.]+)\(")
_CALL_BYTES = 2
"""Pointers on the stack per call besides the frame: return address and alignment."""


def stack_sizes(text: str, compiled: ObjectFile, interface: Interface, target: LibraryTarget) -> dict[str, int]:
    """Upper bound of the stack of each exported function [bytes]: the largest sum of frames along a chain of calls."""
    starts = [*_DEFINITION.finditer(text)]
    ends = [match.start() for match in starts[1:]] + [len(text)]
    callees = {
        match.group(1): set(_CALL.findall(text, match.end(), end)) for match, end in zip(starts, ends, strict=True)
    }
    frames = dict.fromkeys(callees, 0)
    for name, size in compiled.frame_sizes.items():  # copies made by LLVM have the names of their originals as prefix
        original = max((known for known in callees if name.startswith(known)), key=len, default="")
        frames[original] = max(frames.get(original, 0), size)
    totals: dict[str, int] = {}

    def total(function: str) -> int:
        if function not in totals:
            deepest = max((total(callee) for callee in callees[function] if callee in callees), default=0)
            own = frames[function] + _CALL_BYTES * target.pointer_bytes
            totals[function] = own + deepest
        return totals[function]

    return {function.name: total(f"{interface.name}_{function.name}") for function in interface.functions}


# --------------------------------------------------------------------------------------------------------------- files


def _write_files(folder: Path, code: LibraryCode, target: LibraryTarget, scene: Scene) -> CompiledLibrary:
    """Write all files of a library."""
    interface, name = code.interface, code.interface.name
    texts = {"header": (f"{name}.h", c_header(interface))}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if target.is_elf:
            summary = summarise_elf(code.object_file.code)
            files = _write_elf(folder, code, target)
            texts["c++"] = (f"{name}.hpp", cpp_header(interface))
            texts["cmake"] = (f"{name}Config.cmake", cmake_config(interface))
            state = STATE_FILE.format(name) if interface.has_simulation else ""
            texts["python"] = (f"{name}.py", python_loader(interface, state))
        else:
            summary = summarise_wasm(code.object_file.code)
            files = {"object": folder / f"{name}.o", "module": folder / f"{name}.wasm"}
            files["object"].write_bytes(code.object_file.code)
            files["module"].write_bytes(link_wasm(code))
            texts["javascript"] = (f"{name}.js", javascript_loader(interface))
        if interface.has_simulation:
            files["state"] = folder / STATE_FILE.format(name)
            scene.get_state().save(files["state"])
        report = "\n".join([str(item) for item in code.diagnostics.items] or ["nothing to report"])
        texts["report"] = (f"{name}_report.txt", report + "\n")
        for kind, (file, text) in texts.items():
            files[kind] = folder / file
            files[kind].write_text(text, encoding="utf-8")
    except OSError as error:
        raise KinemaError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return CompiledLibrary(name, target.name, files, summary.allocated_bytes, interface.stack_bytes, code.diagnostics)


def _write_elf(folder: Path, code: LibraryCode, target: LibraryTarget) -> dict[str, Path]:
    """Write object file, static library and, where it can be linked, the shared library."""
    name, content = code.interface.name, code.object_file.code
    files = {"object": folder / f"{name}.o", "static": folder / f"lib{name}.a"}
    files["object"].write_bytes(content)
    files["static"].write_bytes(static_library(f"{name}.o", content, summarise_elf(content).defined))
    shared = folder / f"lib{name}.so"
    shared.unlink(missing_ok=True)
    if _link_shared(files["object"], shared, target, code.diagnostics):
        files["shared"] = shared
    return files


def _link_shared(object_file: Path, shared: Path, target: LibraryTarget, diagnostics: Diagnostics) -> bool:
    """Link the shared library by the C compiler of the system; without one, a note is added to the diagnostics."""
    if target.reloc != "pic":
        return False
    candidates = [os.environ.get("CC", ""), "cc", "gcc", "clang"] if target.name == "native" else [target.compiler]
    compiler = next((command for command in candidates if command and shutil.which(command)), None)
    if compiler is None:
        wanted = target.compiler or "cc"
        diagnostics.note(
            "library.no-compiler", f"no shared library: there is no C compiler ({wanted}) to link {shared.name}"
        )
        return False
    command = [compiler, "-shared", "-nostdlib", f"-Wl,-soname,{shared.name}", "-o", str(shared), str(object_file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        diagnostics.note("library.no-compiler", f"no shared library: {compiler} failed: {result.stderr.strip()[-300:]}")
    return result.returncode == 0
