"""Networks that TensorFlow saved match its outputs, on every engine."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.inspect.verify import verify
from anylayer.testing import assert_same
from tests.engine_names import ALL, GENERAL
from tests.hostile import mutations
from tests.hostile.trial import Trials
from tests.layers.tensorflow.recorded import recorded

from .files import const, graph, node, placeholder

MODELS = REFERENCE / "tf_keras"


@needs_data("tf_keras")
@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("name", ["blog", "deconv_upsample", "flatten_dense", "stride_same_even"])
def test_network_matches_tensorflow(name: str, engine: str) -> None:
    net = anylayer.read(MODELS / f"{name}.pb")
    model = net.compile(engine)
    assert not model.host_calls
    with np.load(MODELS / f"{name}.npz") as file:
        assert_same(model({"x": file["x"]})["Identity"], file["y"])


def test_changed_files_never_crash() -> None:
    random = Random("tensorflow")
    graphs = [case.graph for case in recorded().values()]
    with Trials(memory=8000, seconds=20) as trials:
        for _ in range(300):
            changed = mutations.data(random.choice(graphs), random)
            found = trials.run(changed, name="graph.pb", engines=["numpy"])
            named = found.end in ("ok", "EngineError") or found.text.startswith("graph.pb")
            assert found.fine and named, f"{found.end}: {found.text}\n{changed!r}\n{found.trace}"


def half_network() -> bytes:
    """Return a graph that computes in float16: convolutions, batch normalization, pooling, a classifier."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray[Any, Any]:
        return (random.standard_normal(shape) * 0.3).astype(np.float16)

    def window(size: int, padding: str) -> dict[str, Any]:
        return {"T": "float16", "ksize": [1, size, size, 1], "strides": [1, size, size, 1], "padding": padding}

    conv = {"T": "float16", "strides": [1, 1, 1, 1], "padding": "SAME"}
    return graph(
        placeholder("x", 1, 8, 8, 3, dtype="float16"),
        const("w1", weights(3, 3, 3, 8)),
        node("conv", "Conv2D", "x", "w1", **conv),
        const("b1", weights(8)),
        node("biased", "BiasAdd", "conv", "b1", T="float16"),
        *(
            const(name, np.full(8, value, np.float32))
            for name, value in [("s", 1.5), ("o", 0.1), ("m", 0.2), ("v", 2)]
        ),
        node("bn", "FusedBatchNormV3", "biased", "s", "o", "m", "v", T="float16", U="float32", is_training=False),
        node("relu", "Relu6", "bn", T="float16"),
        const("w2", weights(3, 3, 8, 1)),
        node("depthwise", "DepthwiseConv2dNative", "relu", "w2", **conv),
        node("pooled", "MaxPool", "depthwise", **window(2, "VALID")),
        const("axes", np.array([1, 2], np.int32)),
        node("mean", "Mean", "pooled", "axes", T="float16", keep_dims=False),
        const("w3", weights(8, 4)),
        node("product", "MatMul", "mean", "w3", T="float16"),
        node("y", "Softmax", "product", T="float16"),
    )


@pytest.mark.parametrize("engine", GENERAL)
def test_a_float16_graph_runs_and_is_verified_with_the_tolerance_of_float16(engine: str, tmp_path: Path) -> None:
    (tmp_path / "half.pb").write_bytes(half_network())
    net = anylayer.read(tmp_path / "half.pb")
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype(np.float16)
    model = net.compile(engine)
    assert not model.host_calls
    assert_same(model(x)["y"], net.compile("numpy")(x)["y"])
    assert all(check.ok for check in verify(net, {"x": x}, engine))


@pytest.mark.parametrize("name", ["half.onnx", "half.xml"])
def test_a_float16_graph_is_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "half.pb").write_bytes(half_network())
    done = anylayer.read(tmp_path / "half.pb").write(tmp_path / name)
    assert [(check.ok, check.tolerance) for check in done.checks] == [(True, 3e-3)]


@pytest.mark.parametrize("shape", [("N", 64, 96, 3), ("N", 64, "W", 3), ("N", "H", "W", 3)])
def test_sizes_of_a_shape_may_be_open_and_fixed(shape: tuple[Any, ...], tmp_path: Path) -> None:
    """tf.image.resize(x, [2 * h, 2 * w]) packs two scalars of the shape."""
    nodes = [placeholder("x", -1, -1, -1, 3), node("shape", "Shape", "x", T="float32", out_type="int32")]
    nodes += [const("one", np.array([1], np.int32)), const("two", np.array(2, np.int32))]
    for name, axis in (("h", 1), ("w", 2)):
        ends = const(f"{name}0", np.array([axis], np.int32)), const(f"{name}1", np.array([axis + 1], np.int32))
        part = node(name, "StridedSlice", "shape", f"{name}0", f"{name}1", "one", shrink_axis_mask=1, T="int32")
        nodes += [*ends, part, node(f"{name}_times_2", "Mul", name, "two", T="int32")]
    nodes.append(node("size", "Pack", "h_times_2", "w_times_2", N=2, axis=0, T="int32"))
    nodes.append(node("y", "ResizeBilinear", "x", "size", half_pixel_centers=True, T="float32"))
    (tmp_path / "resize.pb").write_bytes(graph(*nodes))
    done = anylayer.read(tmp_path / "resize.pb").write(tmp_path / "out.onnx", shapes={"x": shape})
    assert done.checks
    assert all(check.ok for check in done.checks)
