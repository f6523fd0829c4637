"""Written files before foreign programs: each must load them, and have every link where the description has it.

`judge(source, target, folder)` writes a robot file in another format and asks everybody who reads that format. Newton,
which takes long to start, is asked about many files at once: `judge_newton`.
"""

from .cases import (
    JUDGES as JUDGES,
    Judged as Judged,
    Verdict as Verdict,
)
from .newton import (
    NewtonCase as NewtonCase,
    judge_newton as judge_newton,
)
from .run import (
    cases_of as cases_of,
    judge as judge,
)
