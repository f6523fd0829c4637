"""L2: rules that look for what is wrong in a description. `kinema.check(robot)` applies them all."""

from kinema.foundation import make_callable

from .rule import Finding as Finding, Rule as Rule
from .run import RULES as RULES, check as check

make_callable(__name__, check)
