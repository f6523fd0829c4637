"""Contact records that are interleaved in groups for SIMD code: their places, and lanes without a contact."""

from __future__ import annotations

from typing import Any

import pytest

from kinema.dynamics.collision.contact_buffer_specs import ContactSpecialization
from kinema.dynamics.collision.contact_records import (
    Contact,
    buffer_layout,
    contact_of_iteration,
    for_each_lane_of_contacts,
    inactive_record,
)
from kinema.dynamics.constraints.contact_jacobian import project_twist
from kinema.dynamics.constraints.friction_cone import ContactCost
from kinema.dynamics.rigid.kinematics import Twist


class Memory:
    """One array of numbers, and an iteration of a pair of contacts: the accessors of traced code on plain numbers."""

    def __init__(self, count: int = 0, first_record: int = 0) -> None:
        self.numbers: dict[int, Any] = {}
        self.fields = {"count": float(count), "first record": float(first_record)}
        self.tracer = self

    def has_array(self, name: str) -> bool:
        return name in self.fields

    def read(self, array: str, element: int = 0, offset: float = 0.0) -> Any:
        return self.fields[array] if array in self.fields else self.numbers[element + int(offset)]

    def write(self, array: str, values: list[Any], element: int = 0, offset: float = 0.0) -> None:
        self.numbers |= {element + int(offset) + i: x for i, x in enumerate(values)}

    def counted_loop(self, name: str, count: float, body: Any, **_: Any) -> None:
        for i in range(int(count)):
            body(float(i))


def specialization(group_size: int, *, elliptic: bool = False) -> ContactSpecialization:
    return ContactSpecialization(3, elliptic, False, False, group_size=group_size)


@pytest.mark.parametrize("group_size", [1, 4])
def test_records_are_found_by_index_and_by_lane(group_size: int) -> None:
    """The contacts of two pairs lie next to each other, without overlap; lanes of a group are consecutive."""
    kind = specialization(group_size)
    layout, memory = buffer_layout(kind), Memory(count=6, first_record=8)
    for index in range(20):
        Contact(memory, layout, float(index)).write_record([(index, i) for i in range(layout.record_size)])  # type: ignore[arg-type]
    assert sorted(memory.numbers) == list(range(20 * layout.record_size))
    contact = contact_of_iteration(memory, kind, 5.0)  # type: ignore[arg-type]
    assert contact.scalar("stiffness") == (13, layout.offsets["stiffness"])
    visited = []
    for_each_lane_of_contacts(memory, kind, lambda x: visited.append(x.read("point")[1]))  # type: ignore[arg-type]
    assert visited == [(8 + i, 1) for i in range(6 if group_size == 1 else 8)]
    if group_size > 1:
        places = {value: place for place, value in memory.numbers.items()}
        assert [places[8 + lane, 3] - places[8, 3] for lane in range(group_size)] == list(range(group_size))


@pytest.mark.parametrize("elliptic", [False, True])
def test_lanes_without_contact_have_no_effect(elliptic: bool) -> None:
    kind = specialization(4, elliptic=elliptic)
    layout, memory = buffer_layout(kind), Memory()
    contact = Contact(memory, layout, 3.0)  # type: ignore[arg-type]
    contact.write_record(inactive_record(kind))
    twist = Twist([0.3, -2.0, 5.0], [1.0, 40.0, -7.0])
    assert project_twist(contact, twist) == [0.0] * 3
    residual = [contact.scalar("position_feedback"), 0.0, 0.0]
    contact.write("residual", residual)
    contact.write("residual_derivative", [0.0] * 3)
    cost = ContactCost()
    assert cost.cost(contact, residual) == 0.0
    assert cost.line_derivatives(contact, residual, [0.0] * 3) == (0.0, 0.0)
    assert cost.active_set_changes(contact, residual, contact.residual_at(1e3)) == 0.0
    derivatives = cost.derivatives(contact, residual)
    assert not any(derivatives.gradient)
    assert not any(x for row in derivatives.hessian for x in row)
