"""Greedy selection: loops that take one element after the other, and leave out others by a condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anylayer.graph.facts import integers, number, producer
from anylayer.graph.ir import Graph, Op, Value
from anylayer.optimize.rules import Rewriter

_LEFT, _TAKEN = 2, 3
"""The masks as inputs of a Loop and of its body. They are outputs 1 and 2 of the body, 0 and 1 of the Loop."""


@dataclass(frozen=True, slots=True)
class Greedy:
    """A Loop that marks the elements that it takes, one per step: see tracing.masked_loops.

    The first two states are the masks `left` and `taken`. A step computes

        place = min(where(left, positions, end))    # max if `last`
        taken = taken | (positions == place)
        left = left & (positions != place) & conditions

    last: whether it takes the last of the elements that are left, not the first. place: the position of the
    element of a step, in the body. positions: those of all elements, before the loop. conditions: the values in
    the body that must all be true for an element that stays.
    """

    loop: Op
    body: Graph
    last: bool
    place: Value
    positions: Value
    conditions: list[Value]

    def outside(self, value: Value) -> Value | None:
        """Return the outer value of a body's value that is a constant or the same in each step; else None."""
        if value.const is not None:
            return value
        fixed = 2 + self.loop["states"]  # the inputs before are the step, the condition and the states
        return dict(zip(self.body.inputs[fixed:], self.loop.inputs[fixed:])).get(value)

    @classmethod
    def of(cls, new: Rewriter, o: Op) -> Greedy | None:
        """Return the parts of a loop that returns nothing but a mask of the elements that it takes."""
        body, states = o.body, o["states"]
        others = [v for i, v in enumerate(o.outputs) if i != 1]
        if body is None or o.domain or states < 2 or any(new.old_consumers(v) != [] for v in others):
            return None  # the consumers of an output of the graph are None
        left, mask_before = body.inputs[_LEFT : _TAKEN + 1]
        mask = producer(body.producers, body.outputs[2], "Or")
        parts_of_mask = mask.inputs if mask and mask_before in mask.inputs else []
        is_taken_now = next((v for v in parts_of_mask if v is not mask_before), None)
        equal = producer(body.producers, is_taken_now, "Equal")
        if equal is None:
            return None
        for place in equal.inputs:
            reduced = producer(body.producers, place)
            where = producer(body.producers, reduced.inputs[0], "Where") if reduced else None
            positions = next((v for v in equal.inputs if v is not place), None)
            if (
                reduced is None
                or reduced.op not in ("ReduceMin", "ReduceMax")
                or where is None
                or where.inputs[:2] != [left, positions]
                or place is None
                or positions is None
            ):
                continue
            parts, none_left = cls(o, body, False, place, positions, []), where.inputs[2]
            outer = parts.outside(positions)
            end = None if none_left is None else parts.outside(none_left)
            if outer is None or end is None:
                continue
            is_last = reduced.op == "ReduceMax"
            stays = list(_conjunction(body, body.outputs[1]))
            conditions = [v for v in stays if v is not left and not _is_negation(body, v, is_taken_now)]
            result = cls(o, body, is_last, place, outer, conditions)
            # besides the conditions: `left`, and that this is not the element of the step
            if len(stays) == len(conditions) + 2 and _counts_up(new, outer, end, is_last):
                return result if _all_equal(new, o, _TAKEN, False) else None
        return None

    def starts_with_all(self, new: Rewriter) -> bool:
        """Return whether all elements are left at the beginning."""
        return _all_equal(new, self.loop, _LEFT, True)

    def ends_when_none_is_left(self) -> bool:
        """Return whether a step goes on while any element is left, and for no other reason."""
        value = self.body.outputs[0]
        while (o := producer(self.body.producers, value)) is not None and o.op in ("Cast", "ReduceMax"):
            value = o.first
        return value is self.body.outputs[1]


def _conjunction(body: Graph, value: Value | None) -> Iterator[Value]:
    both = producer(body.producers, value, "And")
    if both is None:
        if value is not None:
            yield value
        return
    for v in both.inputs:
        yield from _conjunction(body, v)


def _is_negation(body: Graph, value: Value, is_taken_now: Value | None) -> bool:
    inverse = producer(body.producers, value, "Not")
    return inverse is not None and inverse.inputs[0] is is_taken_now


def _counts_up(new: Rewriter, positions: Value, none_left: Value, last: bool) -> bool:
    """Return whether positions count up from 0, and `none_left` is beyond their end (for `last`, below 0)."""
    end = number(none_left)
    if positions.const is not None:
        numbers = integers(positions)
        size = positions.const.size
        return numbers == list(range(size)) and end is not None and (end < 0 if last else end >= size)
    counted = new.producer(positions, "Range")
    if counted is None or (number(counted.inputs[0]), number(counted.inputs[2])) != (0, 1):
        return False
    if last:
        return end is not None and end < 0
    return none_left is counted.inputs[1]


def _all_equal(new: Rewriter, o: Op, index: int, expected: bool) -> bool:
    """Return whether all elements of input `index`, a constant or one that is expanded, are `expected`."""
    value = o.input(index)
    filled = new.producer(value, "Expand")
    value = value if filled is None else filled.inputs[0]
    return value is not None and value.const is not None and bool((value.const == np.array(expected)).all())
