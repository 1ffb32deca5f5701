"""Params and blobs that a layer only computes with stay parameters; all others are fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.layer import Definition, load_layers
from anylayer.layer.bound import Bound, bind
from anylayer.loops import Opened, lower, opened, to_cpp
from anylayer.loops.parameters import BlobElements, ParamNumber, others
from anylayer.network import Array, Node, TensorType

X = TensorType.of((1, 2, 3, 4))


def layer(cls: Any, params: dict[str, Any], blobs: list[Array] | None = None) -> Bound:
    node = Node("a", "A", ["x"], ["y"], {"a_param": params}, blobs or [])
    found: Definition = load_layers([("A", cls)])["A"]
    return bind(node, [found], [X])


def free(cls: Any, params: dict[str, Any], blobs: list[Array] | None = None) -> tuple[set[Any], Opened]:
    """Return the params and blobs that stay parameters."""
    source = opened(layer(cls, params, blobs), free_params=True)
    code = to_cpp(lower(source), "f")
    return {*code.params, *(BlobElements(i) for i in code.blobs)}, source


class Affine:
    def __init__(self, params: Any, blobs: Any) -> None:
        self.scale, self.shift, self.blobs = params["scale"], np.float32(params["shift"]), blobs

    def forward(self, inputs: Any) -> Any:
        y = inputs[0] * np.float32(self.scale) + self.shift
        return [y + self.blobs[0].reshape(1, -1, 1, 1)] if self.blobs else [y]


class Guarded(Affine):
    """Refuse negative scales, so that another scale must be checked again."""

    def forward(self, inputs: Any) -> Any:
        if self.scale < 0:
            raise ValueError("scale")
        return [inputs[0] * np.float32(self.scale)]


class Clipped(Affine):
    """Compute with another number than the param where that is small."""

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] * np.float32(max(self.scale, 0.5)) + self.shift]


class Derived(Affine):
    """Compute with a function of a blob, and with a list."""

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] * np.exp(self.blobs[0]).reshape(1, -1, 1, 1)]


class Repeated(Affine):
    """Decide the shape by a param."""

    def forward(self, inputs: Any) -> Any:
        return [np.repeat(inputs[0], self.scale, axis=2) + self.shift]


def test_equal_params_stay_apart() -> None:
    found, source = free(Affine, {"scale": 2.0, "shift": 2.0})
    assert found == {ParamNumber("scale"), ParamNumber("shift")} and len(source.parameters) == 2


def test_blob_stays_parameter_with_its_shape_open() -> None:
    found, _ = free(Affine, {"scale": 2.0, "shift": 0.5}, [np.array([1, 2], np.float32)])
    assert found == {ParamNumber("scale"), ParamNumber("shift"), BlobElements(0)}


@pytest.mark.parametrize(
    ("cls", "params", "blobs", "kept"),
    [
        (Guarded, {"scale": 2.0, "shift": 1.0}, None, set()),
        (Clipped, {"scale": 2.0, "shift": 1.0}, None, {ParamNumber("shift")}),
        (Derived, {"scale": 2.0, "shift": 1.0}, [np.array([1, 2], np.float32)], set()),
        (Repeated, {"scale": 2, "shift": 1.0}, None, {ParamNumber("shift")}),
    ],
)
def test_params_that_code_decides_with_are_fixed(cls: Any, params: Any, blobs: Any, kept: set[Any]) -> None:
    found, source = free(cls, params, blobs)
    assert found == kept
    constants = [v.const for o in source.graph.ops for v in o.inputs if v is not None and v.const is not None]
    numbers = {float(x) for c in constants for x in np.asarray(c).reshape(-1)}
    assert not numbers & {float(others(v)[0]) for k, v in params.items() if ParamNumber(k) not in kept}
