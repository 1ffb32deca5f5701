"""Sums and products that change nothing: accumulators begin with 0 and with 1."""

from __future__ import annotations

from anylayer.graph.ir import Op, Value
from anylayer.optimize.rewrites.matching import plain
from anylayer.optimize.simplify import Rewriter, rule

_IDLE = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}


def _idle(o: Op) -> list[Value] | None:
    if not plain(o):
        return None
    pairs = [o.inputs, o.inputs[::-1]] if o.op in ("Add", "Mul") else [o.inputs]
    for x, c in pairs:
        if x is None or c is None or c.const is None or x.shape != o.outputs[0].shape:
            continue
        if (c.const == _IDLE[o.op]).all():
            return [x]
    return None


@rule("Sub", "Mul", "Div")
def _nothing_done(new: Rewriter, o: Op) -> list[Value] | None:
    """x - 0, x * 1 and x / 1 are x."""
    return _idle(o)


@rule("Add", inexact=True, figure="a pass over the array less")
def _nothing_added(new: Rewriter, o: Op) -> list[Value] | None:
    """x + 0 is x, but for the sign of zeros."""
    return _idle(o)
