"""The examples in C++ against the NumPy layers of the same types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.engines import load_engine
from anylayer.errors import EngineError
from anylayer.inspect.verify import verify
from anylayer.network import Array
from tests.engine_names import EMBEDDING
from tests.readers.tensorflow.graphs import operation, placeholder, vector

ROOT = Path(__file__).parent.parent.parent


def interp_net(folder: Path, shape: tuple[int, ...], height: int, width: int) -> Path:
    """Write a network with ReLU before Interp and Sigmoid after it."""
    dims = " ".join(f"dim: {d}" for d in shape)
    path = folder / "interp.prototxt"
    path.write_text(
        f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}\n'
        'layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }\n'
        'layer { name: "interp" type: "Interp" bottom: "relu" top: "interp"\n'
        f"  interp_param {{ height: {height} width: {width} }} }}\n"
        'layer { name: "sigmoid" type: "Sigmoid" bottom: "interp" top: "out" }\n'
    )
    return path


def noise(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


RESIZES = [
    ((1, 3, 4, 5), (9, 8)),
    ((2, 3, 4, 5), (4, 5)),
    ((3, 2, 7, 9), (3, 4)),
    ((1, 4, 5, 6), (1, 1)),
    ((2, 2, 1, 1), (3, 5)),
    ((1, 1, 2, 2), (500, 3)),
    ((4, 8, 33, 65), (129, 65)),
]
"""Shapes of an input, and the height and width to which Interp resizes it."""


@pytest.mark.parametrize(("shape", "size"), RESIZES)
def test_interp_matches_numpy(
    tmp_path: Path, examples: Path, shape: tuple[int, ...], size: tuple[int, int]
) -> None:
    path = interp_net(tmp_path, shape, *size)
    x = noise(shape)
    want = anylayer.read(path).compile("numpy")(x)["out"]
    model = anylayer.read(path, layers=[examples]).compile("onnxruntime")
    assert model.plan is not None
    assert model.plan.native == [("interp", "Interp", str(examples))]
    for _ in range(3):
        np.testing.assert_allclose(model(x)["out"], want, atol=1e-6)


def test_one_model_takes_several_sizes(tmp_path: Path, examples: Path) -> None:
    model = anylayer.read(interp_net(tmp_path, (1, 3, 4, 5), 9, 8), layers=[examples]).compile("onnxruntime")
    reference = anylayer.read(interp_net(tmp_path, (1, 3, 4, 5), 9, 8)).compile("numpy")
    for shape in [(1, 3, 4, 5), (2, 3, 6, 7), (5, 3, 4, 5), (1, 3, 4, 5)]:
        x = noise(shape)
        np.testing.assert_allclose(model(x)["out"], reference(x)["out"], atol=1e-6)


@pytest.mark.parametrize("engine", EMBEDDING)
def test_two_nodes_of_one_type_have_an_instance_each(tmp_path: Path, examples: Path, engine: str) -> None:
    path = tmp_path / "two.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 } } }\n'
        'layer { name: "up" type: "Interp" bottom: "data" top: "up" interp_param { height: 9 width: 8 } }\n'
        'layer { name: "down" type: "Interp" bottom: "up" top: "out" interp_param { height: 3 width: 6 } }\n'
    )
    x = noise((2, 3, 4, 5))
    want = anylayer.read(path).compile("numpy")(x)["out"]
    model = anylayer.read(path, layers=[examples]).compile(compiled_here(engine))
    for _ in range(2):
        np.testing.assert_allclose(model(x)["out"], want, atol=1e-6)


def compiled_here(engine: str) -> str:
    """Return the engine; skip the test, with the reason, where its package is not installed."""
    try:
        load_engine(engine)
    except EngineError as error:
        pytest.skip(str(error))
    return engine


@pytest.mark.parametrize(
    ("shape", "size", "factors"),
    [
        ((2, 3, 4, 5), [9, 8], False),
        ((1, 6, 5, 2), [3, 10], False),
        ((4, 33, 65, 1), [129, 65], False),
        ((1, 2, 2, 3), [1, 1], False),
        ((2, 3, 4, 5), [3, 2], True),
        ((3, 7, 2, 8), [1, 4], True),
    ],
)
def test_resize_bilinear_matches_numpy(
    tmp_path: Path, examples: Path, shape: tuple[int, ...], size: list[int], factors: bool
) -> None:
    blobs = vector("rows", size[:1]) + vector("columns", size[1:]) if factors else vector("size", size)
    names = ["rows", "columns"] if factors else ["size"]
    path = tmp_path / "net.pbtxt"
    path.write_text(placeholder("x", shape) + blobs + operation("y", "ResizeBilinear", ["x", *names]))
    python = ROOT / "examples/layers/resize_bilinear.py"
    x = noise(shape)
    want = anylayer.read(path, layers=[python]).compile("numpy")({"x": x})["y"]
    rows, columns = (shape[1] * size[0], shape[2] * size[1]) if factors else size
    assert want.shape == (shape[0], rows, columns, shape[3])
    model = anylayer.read(path, layers=[examples, python]).compile("onnxruntime")
    assert [kind for _, kind, _ in model.native_layers] == ["ResizeBilinear"]
    for _ in range(2):
        np.testing.assert_allclose(model({"x": x})["y"], want, atol=1e-5)


def test_double_takes_any_shape(tmp_path: Path, examples: Path) -> None:
    path = tmp_path / "double.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 7 dim: 3 } } }\n'
        'layer { name: "double" type: "Double" bottom: "data" top: "out" }\n'
    )
    model = anylayer.read(path, layers=[examples]).compile("onnxruntime")
    for shape in [(2, 7, 3), (1, 5), (2, 3, 400, 500)]:
        x = noise(shape)
        np.testing.assert_array_equal(model(x)["out"], 2 * x)


def test_verify_compares_the_kernel_with_its_numpy_class(tmp_path: Path, examples: Path) -> None:
    net = anylayer.read(interp_net(tmp_path, (2, 3, 4, 5), 9, 8), layers=[examples])
    checks = {check.name: check for check in verify(net, {"data": noise((2, 3, 4, 5))})}
    assert checks["interp"].ok
    assert not checks["interp"].note
    assert checks["interp"].scale > 0


@needs_data("tf_keras")
@pytest.mark.parametrize("name", ["resize_bilinear", "resize_bilinear_factor"])
def test_resize_bilinear_sees_channels_first_in_a_tensorflow_graph(examples: Path, name: str) -> None:
    path = REFERENCE / "tf_keras" / f"{name}.pb"
    python = ROOT / "examples/layers/resize_bilinear.py"
    net = anylayer.read(path, layers=[examples, python])
    (given,) = net.inputs
    for shape in [(2, 3, 4, 5), (1, 6, 5, 2)]:
        x = noise(shape)
        want = anylayer.read(path, layers=[python]).compile("numpy", {given: shape})({given: x})
        got = net.compile("onnxruntime", {given: shape})({given: x})
        for output, array in want.items():
            np.testing.assert_allclose(got[output], array, atol=1e-5)
        assert all(check.ok for check in verify(net, {given: x}))
    x = noise((2, 3, 4, 5))
    own = anylayer.read(path).compile("numpy")({given: x})
    got = anylayer.read(path, layers=[examples]).compile("onnxruntime")({given: x})
    for output, array in own.items():
        np.testing.assert_allclose(got[output], array, atol=1e-5)
