"""L3: the algorithms, once, over scalars; the programs traced from them; and what runs those."""

from .engine import Engine as Engine
from .field_list import describe_fields as describe_fields
from .fields import Fields as Fields, Quantity as Quantity
from .observe import OBSERVABLES as OBSERVABLES, observing_program as observing_program
from .pivots import Pivots as Pivots, perturbed as perturbed, pivots as pivots
from .programs import step_program as step_program, traced as traced
from .settings import PARAMETERS as PARAMETERS, Control as Control, Integrator as Integrator, Settings as Settings
