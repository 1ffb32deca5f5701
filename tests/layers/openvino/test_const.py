"""Tests of constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import Shape, Type, op
from openvino import opset15 as o15

from anylayer.errors import AnyLayerError

from .harness import const, matches, noise, read_net, save

X = noise(1, 3, 4, 5)


def stored(dtype: Type, values: list[float]) -> object:
    """Return a test that the constants of a dtype that NumPy lacks are read as OpenVINO stores them."""
    return matches(lambda x: o15.add(x, o15.convert(op.Constant(dtype, Shape([5]), values), "f32")), X)


CASES = {
    "f32": matches(lambda x: o15.add(x, const(noise(3, 1, 1))), X),
    "one number": matches(lambda x: o15.add(x, const(1.5, np.float32)), X),
    "f16": matches(lambda x: o15.add(x, o15.convert(const(noise(3, 1, 1).astype(np.float16)), "f32")), X),
    "u8": matches(lambda x: o15.add(x, o15.convert(const([[[1]], [[200]], [[3]]], np.uint8), "f32")), X),
    "boolean": matches(lambda x: o15.select(const([True, False, True, False, True], bool), x, x + x), X),
    "i4": stored(Type.i4, [-3, 7, -8, 2, 5]),
    "u4": stored(Type.u4, [3, 15, 8, 2, 5]),
    "bf16": stored(Type.bf16, [-3.5, 7, 1e30, 0, 0.25]),
    "f64": matches(lambda x: o15.add(x, o15.convert(const([1.25], np.float64), "f32")), X),
}


@pytest.mark.one_per()
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)


def test_large_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    save(lambda x: o15.add(x, const(noise(1, 3, 64, 64))), [noise(1, 3, 64, 64)], path)
    blob = next(b for node in read_net(path).network.nodes for b in node.blobs)
    assert not blob.flags.owndata


def test_rejects_values_beyond_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    save(lambda x: o15.add(x, const(noise(3, 1, 1))), [X], path)
    path.with_suffix(".bin").write_bytes(b"\0" * 8)
    with pytest.raises(AnyLayerError, match=r"12 bytes at offset 0 are needed, but .*net.bin has 8 bytes"):
        read_net(path)
