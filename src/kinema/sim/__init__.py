"""L3: the algorithms, once, over scalars; the programs traced from them; and what runs those."""

from typing import TYPE_CHECKING

from kinema.foundation import export_lazily

from .arrays import ARRAYS as ARRAYS, Use as Use, start_of as start_of
from .collide.planned import (
    ROOM as ROOM,
    kinds_without_contact as kinds_without_contact,
    may_lose_contacts as may_lose_contacts,
    room_for_contacts as room_for_contacts,
)
from .fields.fields import Fields as Fields
from .fields.names import describe_fields as describe_fields
from .fields.quantity import Quantity as Quantity
from .frames import trees_of_frames as trees_of_frames
from .lower.derived import joint_inertias as joint_inertias
from .lower.inertias import Inertias as Inertias
from .run.engine import Engine as Engine
from .run.in_turn import InTurn as InTurn
from .settings import (
    EMISSIONS as EMISSIONS,
    PARAMETERS as PARAMETERS,
    Broad as Broad,
    Control as Control,
    Drive as Drive,
    Integrator as Integrator,
    Settings as Settings,
    Solver as Solver,
    not_by_island as not_by_island,
)
from .variants import WEIGHING as WEIGHING, Variants as Variants

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # what traces: a step from the cache needs none of it
