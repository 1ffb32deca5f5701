"""Arithmetic before a floor, a comparison or a cast to integers, where OpenVINO (2026.4) changes last bits.

OpenVINO computes x * y + z with one rounding instead of two, combines the constants of two operators, and computes
x / y as x * (1 / y), so that 21 / 7 can be less than 3. Sums are hardly affected, but a bin, an index or a mask
that depends on such a bit changes.
"""

from __future__ import annotations

import numpy as np

from anylayer.corrections._openvino import keep_apart
from anylayer.corrections.corrector import Corrected, Corrector, corrected
from anylayer.corrections.remainders import apart, split
from anylayer.graph import Graph, Op, Value
from anylayer.graph.operators import ARITHMETIC
from anylayer.network import Array
from anylayer.optimize.rules import rule


@rule(*ARITHMETIC, kind="must", targets=("openvino",))
def _round_each(new: Corrector, o: Op) -> list[Value] | None:
    """Round after each operator, and compute Div by division.

    A maximum with minus infinity prevents that an operator is fused with the one before it.
    """
    out = o.outputs[0]
    if out.dtype != np.float32 or not (o.outputs[0] in new.before_steps or _overflows(new, o)):
        return None
    inputs = [_prevent_fusion(new, o, v) for v in o.inputs]
    outputs = new.emit(o, o.op, inputs, **o.attrs)
    if o.op == "Div":
        new.divisions.append(outputs[0])
    return outputs


def _overflows(new: Corrector, o: Op) -> bool:
    """Return whether the product of two factors that OpenVINO combines is infinite or 0."""
    before = [v for v in map(new.producer, o.inputs) if v is not None and v.op == "Mul"]
    factors = [v.const for v in o.inputs if v is not None and v.const is not None]
    earlier = [v.const for p in before for v in p.inputs if v is not None and v.const is not None]
    if o.op != "Mul" or not (factors and earlier):
        return False
    sizes = [np.abs(c[c != 0].astype(np.float64)) for c in (factors[0], earlier[0])]
    if not all(s.size for s in sizes):
        return False
    limits, (a, b) = np.finfo(np.float32), sizes
    return bool(a.max() * b.max() > limits.max or a.min() * b.min() < limits.tiny)


def _prevent_fusion(new: Corrector, o: Op, value: Value | None) -> Value | None:
    before = new.producer(value)
    if value is None or before is None or before not in ARITHMETIC:
        return value
    return keep_apart(new, o, value)


_SMALLEST, _LARGEST = 1e-22, 1e33
"""Between these magnitudes of dividend, divisor and quotient, no part of a product of theirs overflows, or is
rounded because it is tiny."""


@rule("Div", kind="must", targets=("openvino file",))
def _divide(new: Corrector, o: Op) -> list[Value] | None:
    """Compute a quotient with one rounding: a file cannot say that a division must not become a product."""
    if o.outputs[0] not in new.marked or o.outputs[0].dtype != np.float32:
        return None
    return new.compute(o, _quotient)


def graph_for_file(corrected_graph: Corrected) -> Graph:
    """Return a corrected graph for a file of OpenVINO. Divisions, which a file cannot mark, become operators."""
    return corrected(corrected_graph.graph, "openvino file", marked=corrected_graph.divisions).graph


def _quotient(x: Array, y: Array) -> Array:
    """Return x / y, rounded once, although the division of the engine is a product with the reciprocal.

    The rest, x minus the product of that quotient and y, is exact in parts of 12 bits (Dekker, A floating-point
    technique for extending the available precision, 1971). The quotient of the rest and y is added.
    """
    first = x / y
    near = apart(first)
    parts, rest = split(y), x
    for a in split(near):
        for b in parts:
            rest = apart(rest - apart(a * b))
    sizes = [np.maximum(v, -v) for v in (x, y, near)]
    usual = [(s > np.float32(_SMALLEST)) & (s < np.float32(_LARGEST)) for s in sizes]
    return np.where(usual[0] & usual[1] & usual[2], near + apart(rest / y), first)
