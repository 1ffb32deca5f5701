"""Layers that merge their inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.arguments import axis_of
from anylayer.layer.fields import attribute
from anylayer.layers._table import define
from anylayer.layers.keras._base import KerasLayer
from anylayer.network import Array


class Merge(KerasLayer):
    """An elementwise function of inputs that broadcast.

    An input of lower rank gets axes of size 1 after the batch.
    """

    masks = "joins"

    def reduce_inputs(self, inputs: Sequence[Any], function: Callable[[Any, Any], Any]) -> Array:
        """Return the inputs, brought to one rank and reduced from the left by `function`."""
        need(len(inputs) >= 1, "takes 1 or more inputs, got 0")
        rank = max(len(x.shape) for x in inputs)
        wide = [x.reshape(x.shape[0], *(1,) * (rank - len(x.shape)), *x.shape[1:]) for x in inputs]
        for x in wide[1:]:
            shapes = (tuple(wide[0].shape), tuple(x.shape))
            need(
                all(a == b or 1 in (a, b) for a, b in zip(*shapes)),
                f"inputs of shapes {shapes[0]} and {shapes[1]} do not broadcast",
            )
        return functools.reduce(function, wide)


class FoldingMerge(Merge):
    """The result of a function of two arrays, applied from the left to all inputs."""

    function: Callable[[Any, Any], Any]

    def forward(self, *inputs: Array) -> Array:
        return self.reduce_inputs(inputs, type(self).function)


_SHAPES = "Inputs (N, ...) broadcast; an input of lower rank gets axes of size 1 after the batch."

for _name, _what, _function in (
    ("Add", "sum", np.add),
    ("Multiply", "product", np.multiply),
    ("Maximum", "maximum", np.maximum),
    ("Minimum", "minimum", np.minimum),
):
    define(
        _name,
        FoldingMerge,
        f"Compute the {_what} of the inputs.",
        f"{_SHAPES}\n    Source: keras/src/layers/merging/{_name.lower()}.py.",
        function=_function,
    )


@layer("Subtract")
class Subtract(Merge):
    """Compute the first input minus the second.

    Inputs (N, ...) broadcast; an input of lower rank gets axes of size 1 after the batch.
    Source: keras/src/layers/merging/subtract.py.
    """

    def forward(self, a: Array, b: Array) -> Array:
        return self.reduce_inputs([a, b], np.subtract)


@layer("Average")
class Average(Merge):
    """Compute the mean of the inputs.

    Inputs (N, ...) broadcast; an input of lower rank gets axes of size 1 after the batch.
    Source: keras/src/layers/merging/average.py.
    """

    def forward(self, *inputs: Array) -> Array:
        return self.reduce_inputs(inputs, np.add) / np.float32(len(inputs))


@layer("Concatenate")
class Concatenate(KerasLayer):
    """Concatenate the inputs along `axis`.

    Inputs (N, ...) have equal shapes except along `axis`.
    Source: keras/src/layers/merging/concatenate.py.
    """

    masks = "joins"
    axis: int = attribute("int64", -1, doc="axis along which the inputs are concatenated")

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) >= 1, "takes 1 or more inputs, got 0")
        axis = axis_of(self.axis, len(inputs[0].shape))
        for x in inputs[1:]:
            same = len(x.shape) == len(inputs[0].shape) and all(
                a == b for i, (a, b) in enumerate(zip(x.shape, inputs[0].shape)) if i != axis
            )
            need(
                same,
                f"inputs {tuple(inputs[0].shape)} and {tuple(x.shape)} must be equal except along axis {axis}",
            )
        return np.concatenate(inputs, axis=axis)


@layer("Dot")
class Dot(KerasLayer):
    """Compute the dot products of the vectors of two inputs, for each item of the batch.

    (N, ...) and (N, ...) to (N, remaining axes of both); (N, 1) for two inputs of rank 2.
    Source: keras/src/layers/merging/dot.py.
    """

    axes: Any = attribute("any", doc="axis of both inputs, or of each, that is summed over")
    normalize: bool = attribute("bool", False, doc="whether the vectors are first scaled to length 1")

    def forward(self, a: Array, b: Array) -> Any:
        axes = self.axes if isinstance(self.axes, list) else [self.axes, self.axes]
        need(
            len(axes) == 2 and all(type(i) is int for i in axes),
            f"axes must be one or two axes, got {self.axes!r}",
        )
        i, j = axis_of(axes[0], len(a.shape), "axes"), axis_of(axes[1], len(b.shape), "axes")
        need(min(i, j) > 0, f"axes must not contain the batch axis 0, got {self.axes}")
        need(
            a.shape[i] == b.shape[j],
            f"axis {i} of {tuple(a.shape)} and axis {j} of {tuple(b.shape)} differ in size",
        )
        if self.normalize:
            a, b = _unit(a, i), _unit(b, j)
        left = ["n", *"abcdefgh"[: len(a.shape) - 1]]
        right = ["n", *"ijklmopq"[: len(b.shape) - 1]]
        left[i] = right[j] = "z"
        result = "".join(["n", *(c for c in (*left[1:], *right[1:]) if c != "z")])
        y = np.einsum(f"{''.join(left)},{''.join(right)}->{result}", a, b)
        return y if len(y.shape) > 1 else y[:, None]


def _unit(x: Array, axis: int) -> Any:
    return x / np.sqrt(np.maximum(np.sum(x * x, axis=axis, keepdims=True), np.float32(1e-12)))
