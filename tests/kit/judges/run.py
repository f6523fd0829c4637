"""One robot file, written in a format, before all who read that format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kinema.core import collect
from kinema.description import Robot, World
from kinema.read import read
from kinema.write import write

from ..written import mjcf, sdf, urdf
from .cases import Judged, Verdict
from .mjcf import judge_mjcf
from .newton import NewtonCase, judge_openusd, newton_case
from .sdf import judge_sdf
from .urdf import judge_urdf


def cases_of(described: Robot | World, target: str) -> Iterator[tuple[Robot | World, str]]:
    """What is written to a file of its own, and the robot that is chosen: URDF holds one robot only."""
    robots = [r for r in described.robots if r.links] if isinstance(described, World) else []
    if target != "urdf" or not isinstance(described, World):
        yield described, ""
        return
    for robot in robots:
        yield described, robot.name


def judge(source: Path, target: str, folder: Path) -> tuple[Judged, list[NewtonCase]]:
    """Read a file, write it as `target`, and ask the judges of that format, but for Newton."""
    described = read(source, policy=collect)
    judged, cases = Judged(), []
    for number, (whole, robot) in enumerate(cases_of(described, target)):
        own = folder / str(number)
        own.mkdir(parents=True)
        if target == "urdf":
            judged.verdicts += judge_urdf(urdf.Written.make(whole, own, robot=robot))
        elif target == "sdf":
            judged.verdicts += judge_sdf(sdf.Written.make(whole, own))
        elif target == "mjcf":
            judged.verdicts += _mjcf(whole, own)
        else:
            file = own / "robot.usdc"
            report = write(whole, file)
            judged.verdicts.append(judge_openusd(file))
            cases.append(newton_case(whole, file, report))
    return judged, cases


def _mjcf(described: Robot | World, folder: Path) -> list[Verdict]:
    try:
        written = mjcf.write(described, folder)
    except ValueError as error:
        return [Verdict("MuJoCo", "wrong", str(error))]
    return judge_mjcf(written)
