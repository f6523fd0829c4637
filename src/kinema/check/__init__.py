"""Rules that find errors and suspicious values in a robot description; `kinema.check(robot)` applies all of them."""

from kinema.core import make_module_callable

from .rule import Finding as Finding, Rule as Rule
from .run import RULES as RULES, check as check

make_module_callable(__name__, check)
