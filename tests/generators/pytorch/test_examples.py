"""The layers of examples/layers as torch functions: their values, their gradients, and their export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.layer import load_layers
from anylayer.network import Array
from tests.test_examples_layers import CASES, FOLDER, apply, node_of

pytestmark = pytest.mark.needs("torch", "safetensors")

RUNS = {name: case for name, case in CASES.items() if case[0] != "PriorBox"}
"""PriorBox computes a constant, which has no gradient."""
_STEP = 1e-5


def generated(folder: Path, case: tuple[str, str, str | None, Sequence[Array]]) -> Any:
    """Return the torch module of a network of one layer of examples/layers."""
    type_, params, dialect, inputs = case
    node_of(folder, type_, params, dialect, inputs)
    name = next(p for p in FOLDER.glob("*.py") if type_ in load_layers([p]))
    net = anylayer.read(folder / "deploy.prototxt", layers=[name], dialect=dialect)
    net.generate("pytorch", folder / "project", test=False)
    text = (folder / "project" / "model.py").read_text()
    assert f"# The layer type {type_}, as {name.name} defines it\ndef " in text
    space: dict[str, Any] = {"__name__": "model", "__file__": str(folder / "project" / "model.py")}
    exec(compile(text, "model.py", "exec"), space)
    return space["load"]()


def numpy_layer(folder: Path, case: tuple[str, str, str | None, Sequence[Array]]) -> Callable[..., list[Array]]:
    """Return the layer as a function of NumPy arrays."""
    type_, params, dialect, inputs = case
    node = node_of(folder, type_, params, dialect, inputs)
    users = [next(found[type_] for p in FOLDER.glob("*.py") if type_ in (found := load_layers([p])))]
    return lambda *xs: [np.asarray(o) for o in apply(node, users, dialect, xs)]


@pytest.mark.parametrize("name", RUNS)
def test_gradient_equals_finite_differences(name: str, tmp_path: Path) -> None:
    import torch

    random, inputs = np.random.default_rng(1), [x.copy() for x in RUNS[name][3]]
    layer, module = numpy_layer(tmp_path, RUNS[name]), generated(tmp_path, RUNS[name])
    tensors = [torch.from_numpy(x).requires_grad_() for x in inputs]
    results = module(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    weights = [random.standard_normal(tuple(r.shape)) for r in results]
    sum((r.double() * torch.from_numpy(w)).sum() for r, w in zip(results, weights)).backward()

    def loss(x: Array) -> float:
        return sum(float((o * w).sum()) for o, w in zip(layer(x, *inputs[1:]), weights))

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

    case = CASES["spatial_transformer"]
    x, theta = case[3][0], case[3][1].copy()
    theta[1] = [0.9, -0.1, 0.2, 0.3, 0.7, -0.15]  # the identity samples at cells, where interpolation has kinks
    case = (*case[:3], [x, theta])
    layer, module = numpy_layer(tmp_path, case), generated(tmp_path, case)
    tensor = torch.from_numpy(theta).requires_grad_()
    module(torch.from_numpy(x), tensor).sum().backward()
    for i in range(theta.size):
        low, high = theta.astype(np.float64), theta.astype(np.float64)
        low.flat[i] -= _STEP
        high.flat[i] += _STEP
        wide = x.astype(np.float64)
        difference = (layer(wide, high)[0].sum() - layer(wide, low)[0].sum()) / (2 * _STEP)
        assert tensor.grad is not None and abs(difference - tensor.grad.numpy().flat[i]) < 1e-3


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.filterwarnings("ignore")
def test_torch_exports_layer(name: str, tmp_path: Path) -> None:
    import torch

    inputs = tuple(torch.from_numpy(x.copy()) for x in RUNS[name][3])
    program = torch.export.export(generated(tmp_path, RUNS[name]), inputs)
    results = program.module()(*inputs)
    want = numpy_layer(tmp_path, RUNS[name])(*RUNS[name][3])
    for got, expected in zip(results if isinstance(results, tuple) else (results,), want, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-5 * max(1.0, np.abs(expected).max()))
