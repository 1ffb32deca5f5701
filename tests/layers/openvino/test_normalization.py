"""Tests of normalization."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset1 as o1
from openvino import opset2 as o2
from openvino import opset5 as o5
from openvino import opset15 as o15

from .harness import const, matches, noise

X, Y, Z = noise(1, 3, 8, 9), noise(2, 4, 6, 5), noise(1, 7, 6, 5)
P = np.abs(X) + np.float32(0.1)
V = [np.abs(noise(3, seed=i)) + np.float32(0.1) for i in range(4)]
F = np.float32


def squares(*axes: int) -> object:
    """Return the sums of squares of Z over windows of 3 along `axes`."""
    total = Z * Z
    for axis in axes:
        pads = [(1, 1) if i == axis else (0, 0) for i in range(4)]
        wide = np.pad(total, pads)
        total = sum(np.take(wide, np.arange(Z.shape[axis]) + i, axis) for i in range(3))
    return total


CASES = {
    "batch norm, opset5": matches(lambda x: o5.batch_norm_inference(x, *[const(v) for v in V], 1e-3), X),
    "batch norm, opset1": matches(lambda x: o1.batch_norm_inference(x, *[const(v) for v in V], 1e-3), X),
    "lrn over channels": matches(lambda x: o15.lrn(x, const([1]), 0.1, 0.75, 1.0, 3), Z),
    "lrn within channels": matches(lambda x: o15.lrn(x, const([2, 3]), 0.1, 0.75, 1.0, 3), Z),
    "mvn, opset2": matches(lambda x: o2.mvn(x, False, True, 1e-2), X),
    "mvn over channels, opset2": matches(lambda x: o2.mvn(x, True, True, 1e-2), X),
    "mvn inside": matches(lambda x: o15.mvn(x, const([2, 3]), True, 1e-2, "INSIDE_SQRT"), X),
    "mvn outside": matches(lambda x: o15.mvn(x, const([1, 2, 3]), True, 1e-2, "OUTSIDE_SQRT"), X),
    "mvn mean only": matches(lambda x: o15.mvn(x, const([2, 3]), False, 1e-2, "INSIDE_SQRT"), X),
    "normalize_l2 add": matches(lambda x: o15.normalize_l2(x, const([1]), 1e-2, "add"), X),
    "normalize_l2 max": matches(lambda x: o15.normalize_l2(x, const([1]), 1e-2, "max"), X),
    "grn": matches(lambda x: o15.grn(x, 0.3), X),
    "groups": matches(lambda x: o15.group_normalization(x, const(noise(4)), const(noise(4, seed=2)), 2, 1e-3), Y),
    "fake_quantize": matches(
        lambda x: o15.fake_quantize(x, const(-1, F), const(1.2, F), const(-1, F), const(1.2, F), 256), X
    ),
    "fake_quantize by channel": matches(
        lambda x: o15.fake_quantize(
            x,
            const(-P[:, :, :1, :1]),
            const(P[:, :, :1, :1]),
            const(-P[:, :, :1, :1]),
            const(2 * P[:, :, :1, :1]),
            16,
        ),
        X,
    ),
}
# OpenVINO's CPU takes a bias of 1 whatever the file says; these are its definition
for _axes in ([1], [2, 3]):
    CASES[f"lrn {_axes} with a bias"] = matches(
        lambda x, axes=_axes: o15.lrn(x, const(axes), 0.1, 0.75, 1.5, 3),
        Z,
        want=[Z / (F(1.5) + F(0.1 / 3 ** len(_axes)) * squares(*_axes)) ** F(0.75)],
    )


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
