"""The memory between the steps of a plan with native layers, which is used again in each call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.compile.plan import KernelStep
from anylayer.kernels.marks import mark, marks
from anylayer.network import Array
from anylayer.runtime.run import PlanRunner, scratch_types

pytestmark = pytest.mark.filterwarnings("ignore:layer .* runs in Python")
kept: list[Array] = []


class Keeps:
    """A layer in Python that keeps its inputs, and cannot be traced."""

    def __init__(self, params: object, blobs: object) -> None: ...

    def forward(self, inputs: list[Any]) -> list[Any]:
        if float(str(inputs[0].sum())) < 1e9:
            kept.append(inputs[0])
        return [inputs[0] * 2]


LAYERS = [
    ("relu", "ReLU", "data"),
    ("a", "Double", "relu"),  # a: read by graphs and by a kernel
    ("b", "Double", "a"),
    ("c", "Sigmoid", "a"),
    ("d", "Double", "c"),  # d: read by a layer in Python
    ("e", "Keeps", "d"),
    ("f", "Double", "relu"),  # f: an output of the network
    ("g", "Sigmoid", "b"),
]


@pytest.fixture
def model(tmp_path: Path, examples: Path) -> anylayer.Model:
    """A network with two kernels in a row, one before a layer in Python, and one that gives an output."""
    text = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 300 } } }\n'
    for name, type_, bottom in LAYERS:
        text += f'layer {{ name: "{name}" type: "{type_}" bottom: "{bottom}" top: "{name}" }}\n'
    (tmp_path / "n.prototxt").write_text(text)
    kept.clear()
    return anylayer.read(tmp_path / "n.prototxt", layers=[examples, ("Keeps", Keeps)]).compile("onnxruntime")


def wanted(x: Array) -> dict[str, Array]:
    relu = np.maximum(x, 0)
    sigmoid = 1 / (1 + np.exp(-2 * relu.astype(np.float64)))
    return {"e": 4 * sigmoid, "f": 2 * relu, "g": 1 / (1 + np.exp(-4 * relu.astype(np.float64)))}


def test_only_values_that_nobody_can_keep_share_memory(model: anylayer.Model) -> None:
    assert model.plan is not None
    assert set(scratch_types(model.plan)) == {"relu", "a", "b", "c"}
    assert sum(isinstance(step, KernelStep) for step in model.plan.steps) == 4


def test_results_of_different_calls_are_independent(model: anylayer.Model) -> None:
    inputs = [np.full((2, 300), k, np.float32) for k in range(5)]
    results = [model(x) for x in inputs]
    arrays = list(kept)
    for x, found in zip(inputs, results):
        for name, want in wanted(x).items():
            np.testing.assert_allclose(found[name], want, rtol=1e-6)
    for x, array in zip(inputs, arrays[-5:]):
        np.testing.assert_allclose(array, wanted(x)["e"] / 2, rtol=1e-6)


def test_results_are_written_into_buffers(model: anylayer.Model) -> None:
    for k in range(3):
        x = np.full((2, 300), k, np.float32)
        buffers = {"f": np.zeros_like(x), "g": np.zeros_like(x)}
        results = model(x, out=buffers)
        for name, want in wanted(x).items():
            np.testing.assert_allclose(results[name], want, rtol=1e-6)
        assert results["f"] is buffers["f"] and results["g"] is buffers["g"]


def test_threads_have_memory_of_their_own(model: anylayer.Model) -> None:
    def run(k: int) -> bool:
        x = np.full((2, 300), k, np.float32)
        found = model(x)
        return all(np.allclose(found[name], want, rtol=1e-6) for name, want in wanted(x).items())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(200)))


def test_unaligned_or_changed_arrays_are_bound_again(tmp_path: Path, examples: Path) -> None:
    (tmp_path / "n.prototxt").write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }\n'
        'layer { name: "a" type: "Double" bottom: "data" top: "a" }\n'
    )
    model = anylayer.read(tmp_path / "n.prototxt", layers=[examples]).compile("onnxruntime")
    odd = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
    assert not odd.flags.aligned
    even = np.zeros((2, 3), np.float32)
    for x in (odd, even):
        for k in range(4):
            x[...] = k
            np.testing.assert_array_equal(model(x)["a"], 2 * x)


def test_plans_without_native_layers_have_no_such_memory(tmp_path: Path) -> None:
    (tmp_path / "n.prototxt").write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }\n'
        'layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }\n'
        'layer { name: "a" type: "Keeps" bottom: "relu" top: "a" }\n'
    )
    model = anylayer.read(tmp_path / "n.prototxt", layers=[("Keeps", Keeps)]).compile("onnxruntime")
    assert model.plan is not None
    assert scratch_types(model.plan) == {}
    assert PlanRunner(model.plan, "onnxruntime", 1)([np.ones((2, 3), np.float32)], {})["a"].sum() == 12


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "bool", "uint16", "int32", "int64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_marks_show_unwritten_elements(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.empty(shape, dtype)
    for turn in (0, 1):
        mark(array, turn)
        assert marks(array, turn).shape == shape
        assert marks(array, turn).all()
        array[...] = 1
        assert not marks(array, turn).any()
