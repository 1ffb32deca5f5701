"""Tests of Interpolate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset1 as o1
from openvino import opset11 as o11
from openvino.utils.node_factory import NodeFactory

from .harness import const, matches, noise, refuses

X, S = noise(1, 3, 8, 9), noise(1, 2, 4, 6)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


def plane() -> object:
    """Return the spatial axes as a constant."""
    return const([2, 3])


def resized(
    size: list[int], mode: str, coordinates: str, nearest: str = "floor", antialias: bool = False
) -> object:
    """Return a test of X with its spatial axes resized."""
    return matches(
        lambda x: o11.interpolate(
            x, const(size), mode, "sizes", [0] * 4, [0] * 4, coordinates, nearest, False, -0.5, const([2, 3])
        ),
        X,
    )


CASES = {
    f"{mode} {coordinates} {size}": resized(size, mode, coordinates)
    for mode in ("linear", "linear_onnx", "cubic")
    for coordinates in COORDINATES
    for size in ([16, 27], [5, 4])
}
CASES |= {
    f"nearest {coordinates} {nearest} {size}": resized(size, "nearest", coordinates, nearest)
    for coordinates in (*COORDINATES, "tf_half_pixel_for_nn")
    for nearest in NEAREST
    for size in ([16, 27], [5, 4])
}
CASES |= {
    f"opset1 {mode} {corners}": matches(
        lambda x, mode=mode, corners=corners: o1.interpolate(
            x,
            const([16, 7]),
            {"axes": np.array([2, 3]), "mode": mode, "align_corners": corners, "antialias": False},
        ),
        X,
    )
    for mode in ("nearest", "linear", "cubic")
    for corners in (True, False)
}
CASES |= {
    f"tie {coordinates} {nearest} {size}": matches(
        lambda x, c=coordinates, n=nearest, s=size: o11.interpolate(
            x, const([s]), "nearest", "sizes", [0] * 4, [0] * 4, c, n, False, -0.75, const([3])
        ),
        noise(1, 1, 2, 7),
    )
    for coordinates, nearest, size in (
        ("half_pixel", "floor", 39),
        ("half_pixel", "ceil", 19),
        ("asymmetric", "round_prefer_ceil", 32),
    )
}
CASES["scales"] = matches(
    lambda x: o11.interpolate(x, const([2.0, 1.5], np.float32), "linear", "scales", axes=plane()), S
)
CASES["pads"] = matches(
    lambda x: o11.interpolate(x, const([9, 12]), "nearest", "sizes", [0, 0, 1, 0], [0, 0, 0, 1], axes=plane()),
    S,
)

test_linear_rejects_coordinates_of_nearest = refuses(
    lambda x: o11.interpolate(
        x,
        const([9, 12]),
        "linear",
        "sizes",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        axes=plane(),
    ),
    S,
    text="tf_half_pixel_for_nn needs mode 'nearest', got 'linear'",
)
test_rejects_antialias_with_smaller_output = refuses(
    lambda x: o11.interpolate(x, const([2, 3]), "linear", "sizes", antialias=True, axes=plane()),
    S,
    text="antialias with a smaller output is not supported",
)
test_rejects_scale_to_fraction_of_a_cell = refuses(
    lambda x: o11.interpolate(x, const([1.3, 1.0], np.float32), "linear", "scales", axes=plane()),
    S,
    text="a scale of 1.3 turns 4 cells into 5.2, which must be an integer",
)
test_one_cell_matches_openvino = resized([1, 12], "linear_onnx", "pytorch_half_pixel")
test_opset4_matches_openvino = matches(
    lambda x: NodeFactory("opset4").create(
        "Interpolate",
        [x, const([16, 18]), const([2, 2], np.float32), plane()],
        {"mode": "nearest", "shape_calculation_mode": "sizes", "nearest_mode": "round_prefer_ceil"},
    ),
    X,
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
