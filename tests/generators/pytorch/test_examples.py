"""The layers of examples/layers as torch functions: their values, their gradients, and their export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.api import Net
from anylayer.convert.generation import Generation
from anylayer.layer import Definition, load_layers
from anylayer.network import Array, Network, Node, TensorType
from tests.layers.harness import noise
from tests.test_examples_layers import CASES, FOLDER, apply, node_of

pytestmark = pytest.mark.needs("torch", "safetensors")

RUNS = {name: case for name, case in CASES.items() if case[0] != "PriorBox"}
"""The layers with their inputs. PriorBox computes a constant, which has no gradient."""
RUNS["crop"] = ("Crop", "", None, [noise(1, 2, 9, 8), noise(1, 1, 4, 5)])
RUNS["resize_bilinear"] = ("ResizeBilinear", "", None, [noise(2, 2, 3, 4)])
_STEP = 1e-5


@dataclass(frozen=True)
class Example:
    """A layer of examples/layers in a network of its own."""

    node: Node
    definition: Definition
    dialect: str | None
    inputs: Sequence[Array]
    folder: Path

    def numpy(self, *inputs: Array) -> list[Array]:
        """Return what the layer computes in NumPy."""
        return [np.asarray(o) for o in apply(self.node, [self.definition], self.dialect, inputs)]

    def generate(self, test: bool, target: str = "pytorch") -> Generation:
        """Generate the project of the network in the folder."""
        types: dict[str, TensorType | None] = {
            n: TensorType.of(x.shape) for n, x in zip(self.node.inputs, self.inputs)
        }
        outputs = {name: name for name in self.node.outputs}
        network = Network("example", "caffe", types, [self.node], outputs, dialect=self.dialect)
        net = Net(network, {self.node.type: self.definition})
        given = dict(zip(types, self.inputs))
        return net.generate(target, self.folder / "project", test=test, inputs=given)

    def module(self) -> Any:
        """Return the generated torch module."""
        project = self.generate(test=False).folder
        text = (project / "model.py").read_text()
        origin = Path(self.definition.origin).name
        assert f"# The layer type {self.node.type}, as {origin} defines it\ndef " in text
        space: dict[str, Any] = {"__name__": "model", "__file__": str(project / "model.py")}
        exec(compile(text, "model.py", "exec"), space)
        return space["load"]()


def example(name: str, folder: Path) -> Example:
    """Return the example of this name."""
    type_, params, dialect, inputs = RUNS[name]
    node = node_of(folder, type_, params, dialect, inputs)
    if type_ == "ResizeBilinear":  # a layer of TensorFlow, whose size is a blob
        node.params, node.blobs = {"align_corners": False}, [np.array([[7, 9]])]
    found = load_layers([FOLDER / f"{name.split()[0]}.py"])[type_]
    return Example(node, found, dialect, inputs, folder)


@pytest.mark.parametrize("name", RUNS)
def test_gradient_equals_finite_differences(name: str, tmp_path: Path) -> None:
    import torch

    random, tested = np.random.default_rng(1), example(name, tmp_path)
    module, inputs = tested.module(), [x.copy() for x in tested.inputs]
    tensors = [torch.from_numpy(x).requires_grad_() for x in inputs]
    results = module(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    weights = [random.standard_normal(tuple(r.shape)) for r in results]
    sum((r.double() * torch.from_numpy(w)).sum() for r, w in zip(results, weights)).backward()

    def loss(x: Array) -> float:
        return sum(float((o * w).sum()) for o, w in zip(tested.numpy(x, *inputs[1:]), weights))

    gradient = tensors[0].grad.numpy()
    x = inputs[0].astype(np.float64)
    for i in random.choice(x.size, min(x.size, 40), replace=False):
        low, high = x.copy(), x.copy()
        low.flat[i] -= _STEP
        high.flat[i] += _STEP
        difference = (loss(high) - loss(low)) / (2 * _STEP)
        assert abs(difference - gradient.flat[i]) <= 1e-4 * max(1.0, float(np.abs(gradient).max())), (name, i)


def test_gradient_of_grid_equals_finite_differences(tmp_path: Path) -> None:
    import torch

    x, theta = RUNS["spatial_transformer"][3][0], RUNS["spatial_transformer"][3][1].copy()
    theta[1] = [0.9, -0.1, 0.2, 0.3, 0.7, -0.15]  # the identity samples at cells, where interpolation has kinks
    tested = replace(example("spatial_transformer", tmp_path), inputs=[x, theta])
    module = tested.module()
    tensor = torch.from_numpy(theta).requires_grad_()
    module(torch.from_numpy(x), tensor).sum().backward()
    for i in range(theta.size):
        low, high = theta.astype(np.float64), theta.astype(np.float64)
        low.flat[i] -= _STEP
        high.flat[i] += _STEP
        wide = x.astype(np.float64)
        difference = (tested.numpy(wide, high)[0].sum() - tested.numpy(wide, low)[0].sum()) / (2 * _STEP)
        assert tensor.grad is not None and abs(difference - tensor.grad.numpy().flat[i]) < 1e-3


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.filterwarnings("ignore")
def test_torch_exports_layer(name: str, tmp_path: Path) -> None:
    import torch

    tested = example(name, tmp_path)
    inputs = tuple(torch.from_numpy(x.copy()) for x in tested.inputs)
    results = torch.export.export(tested.module(), inputs).module()(*inputs)
    want = tested.numpy(*tested.inputs)
    for got, expected in zip(results if isinstance(results, tuple) else (results,), want, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-5 * max(1.0, np.abs(expected).max()))
