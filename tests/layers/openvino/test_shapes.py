"""Tests of the operations on shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset15 as o15
from openvino.utils.node_factory import NodeFactory

from .harness import const, matches, noise

X = noise(1, 3, 8, 9)
F = np.float32


def by_shape(x: object) -> object:
    """Return x, reshaped to a shape that is computed from its own."""
    first = o15.gather(o15.shape_of(x), const([0, 1]), const(0))
    return o15.reshape(x, o15.concat([first, const([-1])], 0), False)


CASES = {
    "reshape": matches(lambda x: o15.reshape(x, const([0, -1, 9]), True), X),
    "reshape by the shape": matches(by_shape, X),
    "squeeze": matches(lambda x: o15.squeeze(x, const([0])), X),
    "squeeze all": matches(o15.squeeze, X[:, :1]),
    "unsqueeze": matches(lambda x: o15.unsqueeze(x, const([0, -1])), X),
    "transpose": matches(lambda x: o15.transpose(x, const([0, 2, 3, 1])), X),
    "concat": matches(lambda a, b: o15.concat([a, b], -3), X, 2 * X),
    "split": matches(lambda x: o15.split(x, const(1), 3), X),
    "variadic_split": matches(lambda x: o15.variadic_split(x, const(2), const([3, -1, 2])), X),
    "broadcast": matches(lambda x: o15.broadcast(x, const([2, 3, 8, 9])), X),
    "broadcast both": matches(lambda x: o15.broadcast(x, const([2, 1, 1, 1]), broadcast_spec="BIDIRECTIONAL"), X),
    "broadcast explicit": matches(lambda x: o15.broadcast(x, const([2, 3, 5]), const([1]), "EXPLICIT"), noise(3)),
    "tile": matches(lambda x: o15.tile(x, const([2, 1, 1, 3])), X),
    "roll": matches(lambda x: o15.roll(x, const([2, -1]), const([1, 2])), X),
    "range": matches(lambda x: o15.add(x, o15.range(const(0, F), const(9, F), const(1, F), "f32")), X),
    "reverse": matches(lambda x: o15.gather(x, o15.range(const(8), const(-1), const(-1), "i64"), const(3)), X),
}

CASES["squeeze, axes skipped"] = matches(lambda x: o15.squeeze(x, const([0, 1]), True), X, want=[X[0]])
for _mode, _axes in (("index", const([1, -1])), ("mask", const([False, True, False, True], bool))):
    CASES[f"reverse by {_mode}"] = matches(
        lambda x, a=_axes, m=_mode: NodeFactory("opset1").create("Reverse", [x, a], {"mode": m}),
        X,
        want=[X[:, ::-1, :, ::-1]],
    )


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
