"""Tests of network inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset15 as o15

from anylayer.errors import AnyLayerError
from anylayer.network import TensorType

from .harness import noise, read_net, save


def shaped(shape: str, path: Path) -> None:
    parameter = o15.parameter(ov.PartialShape(shape), np.float32, name="x")
    ov.serialize(ov.Model([o15.relu(parameter)], [parameter], "net"), str(path))


def test_input_keeps_name_and_type(tmp_path: Path) -> None:
    save(o15.relu, [noise(1, 3, 4, 5)], tmp_path / "net.xml")
    assert read_net(tmp_path / "net.xml").inputs == {"in0": TensorType.of((1, 3, 4, 5))}


def test_unknown_batch_size_becomes_one(tmp_path: Path) -> None:
    shaped("?,3,4,4", tmp_path / "net.xml")
    net = read_net(tmp_path / "net.xml")
    assert net.inputs == {"x": TensorType.of((1, 3, 4, 4))}
    assert net.network.open == {"x": (None, 3, 4, 4)}
    x = noise(2, 3, 4, 4)
    got = net.compile(engine="numpy", shapes={"x": x.shape})({"x": x})
    assert np.array_equal(next(iter(got.values())), np.maximum(x, 0))


def test_input_with_dynamic_sizes_has_no_type(tmp_path: Path) -> None:
    shaped("1,3,?,2..8", tmp_path / "net.xml")
    net = read_net(tmp_path / "net.xml")
    assert net.inputs == {"x": None}
    assert net.network.open == {"x": (1, 3, None, None)}
    x = noise(1, 3, 2, 5)
    for engine in ("numpy", "onnxruntime"):
        got = net.compile(engine=engine)({"x": x})
        assert np.array_equal(next(iter(got.values())), np.maximum(x, 0))


def test_input_with_a_dynamic_rank_is_refused(tmp_path: Path) -> None:
    shaped("...", tmp_path / "net.xml")
    with pytest.raises(AnyLayerError, match="its rank is dynamic"):
        read_net(tmp_path / "net.xml")


def test_layout_of_images(tmp_path: Path) -> None:
    for layout, want in (("NHWC", {"x": "NHWC"}), ("NCHW", {})):
        x = o15.parameter([1, 4, 4, 3], name="x")
        x.set_layout(ov.Layout(layout))
        ov.serialize(ov.Model([o15.relu(x)], [x], "net"), str(tmp_path / "net.xml"))
        assert read_net(tmp_path / "net.xml").network.layouts == want
