"""Layers that merge their inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from anylayer.layer import attribute, need
from anylayer.layer.arguments import axis_of
from anylayer.layers._table import define, operators, row
from anylayer.layers.keras._base import KerasLayer
from anylayer.layers.keras._functions import l2_normalize
from anylayer.network import Array


class Merge(KerasLayer):
    """A function of two arrays, applied from the left to all inputs, which broadcast.

    An input of lower rank gets axes of size 1 after the batch.
    """

    masks = "joins"
    function: ClassVar[Callable[[Any, Any], Any]]

    count: ClassVar[int] = 0
    """The number of inputs; 0 stands for any."""

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) >= 1, "takes 1 or more inputs, got 0")
        need(self.count in (0, len(inputs)), f"takes {self.count} inputs, got {len(inputs)}")
        rank = max(len(x.shape) for x in inputs)
        wide = [x.reshape(x.shape[0], *(1,) * (rank - len(x.shape)), *x.shape[1:]) for x in inputs]
        for x in wide[1:]:
            shapes = (tuple(wide[0].shape), tuple(x.shape))
            need(
                all(a == b or 1 in (a, b) for a, b in zip(*shapes)),
                f"inputs of shapes {shapes[0]} and {shapes[1]} do not broadcast",
            )
        return functools.reduce(type(self).function, wide)


class MeanOfInputs(Merge):
    """The sum of the inputs, divided by their number."""

    def forward(self, *inputs: Array) -> Array:
        return super().forward(*inputs) / np.float32(len(inputs))


for _name, _base, _what, _function in (
    ("Add", Merge, "the sum of the inputs", np.add),
    ("Multiply", Merge, "the product of the inputs", np.multiply),
    ("Maximum", Merge, "the maximum of the inputs", np.maximum),
    ("Minimum", Merge, "the minimum of the inputs", np.minimum),
    ("Subtract", Merge, "the first input minus the second", np.subtract),
    ("Average", MeanOfInputs, "the mean of the inputs", np.add),
):
    define(
        _name,
        _base,
        f"Compute {_what}.",
        "Inputs (N, ...) broadcast; an input of lower rank gets axes of size 1 after the batch.\n"
        f"    Source: keras/src/layers/merging/{_name.lower()}.py.",
        function=_function,
        count=2 if _name == "Subtract" else 0,
    )


def _concatenate(*inputs: Array, axis: int) -> Array:
    need(len(inputs) >= 1, "takes 1 or more inputs, got 0")
    axis = axis_of(axis, len(inputs[0].shape))
    for x in inputs[1:]:
        same = len(x.shape) == len(inputs[0].shape) and all(
            a == b for i, (a, b) in enumerate(zip(x.shape, inputs[0].shape)) if i != axis
        )
        need(same, f"inputs {tuple(inputs[0].shape)} and {tuple(x.shape)} must be equal except along axis {axis}")
    return np.concatenate(inputs, axis=axis)


def _dot(a: Array, b: Array, axes: Any, normalize: bool) -> Array:
    listed = axes if isinstance(axes, list) else [axes, axes]
    need(len(listed) == 2 and all(type(i) is int for i in listed), f"axes must be one or two axes, got {axes!r}")
    i, j = axis_of(listed[0], len(a.shape), "axes"), axis_of(listed[1], len(b.shape), "axes")
    need(min(i, j) > 0, f"axes must not contain the batch axis 0, got {axes}")
    need(a.shape[i] == b.shape[j], f"axis {i} of {tuple(a.shape)} and axis {j} of {tuple(b.shape)} differ in size")
    if normalize:
        a, b = l2_normalize(a, i), l2_normalize(b, j)
    left = ["n", *"abcdefgh"[: len(a.shape) - 1]]
    right = ["n", *"ijklmopq"[: len(b.shape) - 1]]
    left[i] = right[j] = "z"
    result = "".join(["n", *(c for c in (*left[1:], *right[1:]) if c != "z")])
    y = np.einsum(f"{''.join(left)},{''.join(right)}->{result}", a, b)
    return y if len(y.shape) > 1 else y[:, None]


operators(
    KerasLayer,
    "Source: keras/src/layers/merging/{}.py.",
    {
        "Concatenate": row("Concatenate the inputs along `axis`.", _concatenate, "concatenate",
            "Inputs (N, ...) have equal shapes except along `axis`.", {"masks": "joins"},
            axis=attribute("int64", -1, doc="axis along which the inputs are concatenated")),
        "Dot": row("Compute the dot products of the vectors of two inputs, for each item of the batch.",
            _dot, "dot",
            "(N, ...) and (N, ...) to (N, remaining axes of both); (N, 1) for two inputs of rank 2.",
            axes=attribute("any", doc="axis of both inputs, or of each, that is summed over"),
            normalize=attribute("bool", False, doc="whether the vectors are first scaled to length 1")),
    },
    __module__=__name__,
)  # fmt: skip
