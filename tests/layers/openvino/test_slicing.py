"""Tests of slices, gathers, scatters and padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from openvino import opset8 as o8
from openvino import opset15 as o15

from .harness import const, matches, noise, read_net, refuses, save

X, Y = noise(1, 3, 8, 9), noise(2, 5, 3)
F = np.float32


def strided(begin: list[int], end: list[int], steps: list[int], **masks: list[int]) -> object:
    """Return a test of StridedSlice of X with these masks."""
    masks = {"begin_mask": [0] * len(begin), "end_mask": [0] * len(begin), **masks}
    return matches(lambda x: o15.strided_slice(x, const(begin), const(end), const(steps), **masks), X)


CASES = {
    "strided": strided([0, 0, 1, 8], [0, 0, 7, 1], [1, 1, 2, -2], begin_mask=[1, 1, 0, 0], end_mask=[1, 1, 0, 0]),
    "strided, new axis": strided([0, 0, 0], [1, 1, 2], [1, 1, 1], new_axis_mask=[1, 0, 0]),
    "strided, one index": strided([0, 1, 2], [1, 2, 3], [1, 1, 1], shrink_axis_mask=[0, 1, 0]),
    "strided, ellipsis": strided([0, 1], [0, 3], [1, 1], ellipsis_mask=[1, 0]),
    "slice": matches(lambda x: o15.slice(x, const([1, 7]), const([3, -100]), const([1, -2]), const([1, 2])), X),
    "slice, from before the array": matches(
        lambda x: o15.slice(x, const([-9, 6]), const([-99, -99]), const([-1, -3]), const([1, 2])), X
    ),
    "gather": matches(lambda x: o15.gather(x, const([[0, -1], [2, 1]]), const(2)), X),
    "gather by rows": matches(
        lambda x, i: o15.gather(x, i, const(1), 1), Y, np.array([[0, 4], [2, -1]], np.int32)
    ),
    "gather_elements": matches(
        lambda x, i: o15.gather_elements(x, i, 1), noise(2, 5), np.array([[0, 4], [2, 1]], np.int32)
    ),
    "gather_nd": matches(o15.gather_nd, Y, np.array([[0, 4], [1, 1]], np.int64)),
    "gather_nd i32": matches(o15.gather_nd, Y, np.array([[0, 4], [1, 1]], np.int32)),
    "scatter_update": matches(
        lambda x, u: o15.scatter_update(x, const([3, 0]), u, const(1)), Y, noise(2, 2, 3, seed=1)
    ),
    "scatter_nd": matches(
        lambda x, u: o15.scatter_nd_update(x, const([[0, 3], [1, 0]]), u), Y, noise(2, 3, seed=1)
    ),
    "scatter_nd sub": matches(
        lambda x, u: o15.scatter_nd_update(x, const([[0, 3], [0, 3]]), u, reduction="sub"), Y, noise(2, 3, seed=1)
    ),
    "scatter_elements sum": matches(
        lambda x, u: o15.scatter_elements_update(x, const([[0, 3], [1, 0]]), u, const(1), reduction="sum"),
        noise(2, 5),
        noise(2, 2, seed=1),
    ),
    "pad, negative": matches(
        lambda x: o15.pad(x, const([0, 0, -1, 2]), const([0, 0, 2, -1]), "constant", const(1.5, F)), X
    ),
    "reverse_sequence": matches(lambda x: o15.reverse_sequence(x, const([2, 4]), 0, 1), Y),
    "one_hot": matches(
        lambda x: o15.one_hot(x, const(4), const(2, F), const(-1, F), 1), np.array([[0, 3], [-1, 4]], np.int64)
    ),
}
CASES |= {
    f"pad {mode}": matches(
        lambda x, mode=mode: o15.pad(x, const([0, 0, 1, 2]), const([0, 0, 2, 1]), mode, const(1.5, F)), X
    )
    for mode in ("constant", "edge", "reflect", "symmetric")
}
# OpenVINO's CPU reads past the end of the map if a new axis meets a single index
CASES["strided, both"] = matches(
    lambda x: o15.strided_slice(
        x, const([0, 0, 0]), const([1, 1, 2]), const([1, 1, 1]), [0] * 3, [0] * 3, [1, 0, 0], [0, 1, 0]
    ),
    X,
    want=[X[None, 0, 0:2]],
)


def shortened(x: Any) -> Any:
    """Return the rows without the last two."""
    rows = o15.gather(o15.shape_of(x), const([0]), const(0))
    return o15.slice(x, const([0]), o15.subtract(rows, const([2])), const([1]), const([0]))


def doubled(x: Any) -> Any:
    """Return the rows, and as many rows of zeros."""
    return o15.pad(x, const([0, 0]), o15.multiply(o15.shape_of(x), const([1, 0])), "constant")


@pytest.mark.parametrize(("build", "name"), [(shortened, "2*N - 2"), (doubled, "4*N")])
def test_limits_computed_from_sizes_keep_open_sizes_exact(build: Any, name: str, tmp_path: Path) -> None:
    save(build, [noise(6, 2)], tmp_path / "net.xml")
    net = read_net(tmp_path / "net.xml")
    net.write(tmp_path / "net.onnx", shapes={"in0": ("2*N", 2)})
    (output,) = onnx.load(tmp_path / "net.onnx").graph.output
    assert [d.dim_param or d.dim_value for d in output.type.tensor_type.shape.dim] == [name, 2]


def test_computed_pads_of_other_modes_are_named(tmp_path: Path) -> None:
    inputs = (noise(2, 3), np.int64([0, 1]))
    save(lambda x, pads: o15.pad(x, pads, const([0, 0]), "edge"), inputs, tmp_path / "net.xml")
    with pytest.warns(UserWarning, match="computed pads with pad_mode 'edge' are not supported"):
        model = read_net(tmp_path / "net.xml").compile("onnxruntime", threads=1)
        (got,) = model(dict(zip(["in0", "in1"], inputs))).values()
    assert (got == np.pad(inputs[0], [(0, 0), (1, 0)], mode="edge")).all()


test_gather_nd_rejects_batch_dims = refuses(
    lambda x: o8.gather_nd(x, const([[0], [1]]), 1), Y, text="batch_dims must be 0, got 1"
)
test_pad_rejects_negative_pads_with_edge = refuses(
    lambda x: o15.pad(x, const([0, -1]), const([0, 0]), "edge"),
    noise(2, 3),
    text="negative pads with pad_mode 'edge' are not supported",
)
CASES["gather in more than 64 batches"] = matches(
    lambda x, i: o15.gather(x, i, const(1), 1), noise(65, 3), np.arange(65, dtype=np.int64).reshape(65, 1) % 3
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
