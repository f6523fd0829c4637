"""The nodes of a cluster, seen from outside: what they have, and whether they can be used."""

from __future__ import annotations

from typing import Any

from kinema.foundation import KinemaError

from .nodes import Needs, facts, own_version, places, refusal, short_of
from .on_ray import connect, on_node, ray_library, workplaces

_PATIENCE = 60.0
"""How long a node may take to answer [s]."""


def nodes_of(address: str, needs: Needs | None = None) -> list[dict[str, Any]]:
    """All nodes that are up and offer something: number, address, CPUs, GPUs, memory [bytes], room for workers."""
    ray = ray_library()
    joined = connect(ray, address)
    try:
        return [_node(n, needs or Needs()) for n in workplaces(ray)]
    finally:
        if joined:
            ray.shutdown()


def _node(node: dict[str, Any], needs: Needs) -> dict[str, Any]:
    resources = node["Resources"]
    return {
        "node": node["NodeID"],
        "address": node["NodeManagerAddress"],
        "cpus": resources.get("CPU", 0.0),
        "gpus": resources.get("GPU", 0.0),
        "memory": int(resources.get("memory", 0.0)),
        "workers": places(resources, needs),
    }


def examined(address: str, needs: Needs) -> list[dict[str, Any]]:
    """The same with what each node says of itself, and in `problem` why it cannot be used, in one sentence."""
    ray = ray_library()
    joined = connect(ray, address)
    try:
        found = []
        for node in nodes_of(address, needs):
            resources = {"CPU": node["cpus"], "GPU": node["gpus"]}
            problem = short_of(node["address"], resources, needs)
            said = {} if problem else _asked(ray, node["node"])
            if not problem:
                problem = said.pop("silent", "") or refusal(said, needs, own_version())
            found.append({**node, **said, "problem": problem})
        return found
    finally:
        if joined:
            ray.shutdown()


def _asked(ray: Any, node: str) -> dict[str, Any]:
    """What a node says of itself, or why it says nothing."""
    answer = ray.remote(num_cpus=0)(facts).options(scheduling_strategy=on_node(node)).remote()
    try:
        return ray.get(answer, timeout=_PATIENCE)
    except ray.exceptions.GetTimeoutError:
        return {"silent": f"{node[:8]} says nothing for {_PATIENCE:g} s"}
    except ray.exceptions.RayError as error:
        return {"silent": f"{node[:8]} cannot run Kinema: {str(error).strip().splitlines()[-1]}"}
    except KinemaError as error:
        return {"silent": f"{node[:8]}: {error}"}
