"""Written files before foreign programs: each must load them, and have every link where the description has it.

`judge(source, target, folder)` writes a robot file in another format and asks everybody who reads that format. Newton,
which takes long to start, is asked about many files at once: `judge_newton`.
"""

import sys
from pathlib import Path

# the files of each format, and how they correspond to the description, are the business of that format's tests
sys.path[:0] = [str(Path(__file__).parents[1] / "write" / format) for format in ("urdf", "sdf", "mjcf")]

from .cases import (  # noqa: E402  the path comes first
    JUDGES as JUDGES,
    Judged as Judged,
    Verdict as Verdict,
)
from .newton import (  # noqa: E402
    NewtonCase as NewtonCase,
    judge_newton as judge_newton,
)
from .run import (  # noqa: E402
    cases_of as cases_of,
    judge as judge,
)
