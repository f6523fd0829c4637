"""Creation of an entity from descriptions, files or bodies: overrides, base pose, variants and model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from kinema.builder import NONCONVEX_APPROXIMATIONS, EntityModels, EntitySpec
from kinema.core import ArrayLike, Diagnostics, KinemaError, pause_garbage_collection, unique_name

from .arguments import base_pose, boolean, one_of, one_of_or_none
from .built_scene import HasBuiltScene
from .entity import Entity
from .morphs import ON_DESCRIPTION_ERROR, Addable, MaterialOverrides, raise_description_errors
from .shared_descriptions import DescriptionArguments, SharedDescriptions
from .variants import unify_variants


@pause_garbage_collection()
def create_entity(  # noqa: PLR0913  one parameter per argument of `Scene.add`
    scene: HasBuiltScene,
    sources: Sequence[Addable],
    overrides: MaterialOverrides,
    used_names: set[str],
    known_descriptions: SharedDescriptions,
    *,
    pose: tuple[ArrayLike, ArrayLike | None, ArrayLike | None],
    fixed: bool | None,
    kinematic: bool,
    fast: bool | str | Sequence[str] | None,
    self_collision: bool | None,
    scale: ArrayLike,
    name: str | None,
    nonconvex: str | None,
    seed: int | None,
    errors: str,
) -> tuple[Entity, EntitySpec, Diagnostics]:
    """Entity of a scene that is not built, with its specification and the messages about its files.

    `sources` has one description, file or body for each variant, `overrides` the material, mass, color and collision of
    the user, and `pose` the position and the quaternion or Euler angles of the base. The name of the entity is added to
    `used_names`; `known_descriptions` are those of the entities of the scene. The other arguments are those of
    `Scene.add`.
    """
    if not sources:
        raise KinemaError("add: the list of variants is empty")
    if seed is not None and (len(sources) == 1 or isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise KinemaError(f"seed: expected a non-negative integer and a list of variants, not {seed!r}")
    is_fixed = None if fixed is None else boolean(fixed, "fixed")
    keep_errors = one_of(errors, "errors", ON_DESCRIPTION_ERROR) == "keep"
    if boolean(kinematic, "kinematic") and is_fixed is not None:
        raise KinemaError("add: expected fixed or kinematic, not both")
    arguments = DescriptionArguments(overrides, scale, is_fixed, kinematic, fast)
    shared = known_descriptions.describe(sources[0], arguments) if len(sources) == 1 else None
    messages = Diagnostics() if shared is None else Diagnostics(items=list(shared.messages))
    descriptions = [arguments.describe(x, messages) for x in sources] if shared is None else [shared.description]
    approximation = one_of_or_none(nonconvex, "nonconvex", NONCONVEX_APPROXIMATIONS)
    collides = None if self_collision is None else boolean(self_collision, "self_collision")
    poses = [base_pose(x, *pose) for x in descriptions]
    with ExitStack() as undo:
        entity_name = unique_name(name or descriptions[0].name or "entity", used_names)
        undo.callback(used_names.discard, entity_name)
        specs = [
            EntitySpec(
                name=entity_name,
                description=x,
                pose=base,
                fixed=is_fixed,
                nonconvex=approximation,
                self_collision=collides,
            )
            for x, base in zip(descriptions, poses, strict=True)
        ]
        variants = unify_variants(descriptions, specs, seed) if len(specs) > 1 else None
        spec = specs[0] if variants is None else variants.specs[0]
        models = EntityModels(spec) if shared is None else shared.models_of(spec)
        model, make_posed_model = models.model_or_template(spec)
        if not keep_errors:
            raise_description_errors([*(d.diagnostics for d in descriptions), models.diagnostics])
        undo.pop_all()
    entity = Entity(scene, spec, model, variants, make_posed_model)
    if shared is not None and shared.is_kept:
        entity._index.shared_description = shared
    return entity, spec, messages
