"""Eltwise."""

from __future__ import annotations

from functools import reduce

import numpy as np

from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._messages import INTEL, engine_field
from anylayer.network import Array


@layer("Eltwise")
class Eltwise(Layer):
    """Compute the product, weighted sum or maximum of inputs of equal shape, elementwise.

    In place, Caffe clears the output before it reads input 0, so SUM and MAX (not PROD) lose the values of input
    0. The same is done here.
    Source: BVLC/caffe src/caffe/layers/eltwise_layer.cpp.
    """

    elementwise = True
    message = "eltwise_param"
    numbers = {"": 110}
    operation: str = field(1, Enum("PROD", "SUM", "MAX"), "SUM", doc="operation on the inputs")
    coeff: tuple[float, ...] = field(2, "float", repeated=True, doc="SUM: a factor for each input; default 1")
    stable_prod_grad: bool = field(3, "bool", True, doc="how PROD's gradient is computed (training)")

    engine: str = engine_field(4, INTEL)

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) >= 2, f"takes 2 inputs or more, got {len(inputs)}")
        need(
            len(self.coeff) in (0, len(inputs)),
            f"coeff must be given once for each of the {len(inputs)} inputs, got {len(self.coeff)}",
        )
        need(not (self.operation == "PROD" and self.coeff), "coeff goes with operation SUM only, got PROD")
        first = tuple(inputs[0].shape)
        for i, x in enumerate(inputs[1:], 1):
            need(
                tuple(x.shape) == first,
                f"inputs must have one shape: input 0 is {first}, input {i} is {tuple(x.shape)}. "
                "Eltwise does not broadcast; Scale and Bias do",
            )
        if self.operation == "PROD":
            return reduce(np.multiply, inputs)
        terms = list(zip(inputs, self.coeff or (1.0,) * len(inputs)))
        if self.in_place:
            self.note(
                f"{self.operation} in place leaves input 0 out, as Caffe does (it clears the output first). "
                "Give the top a name of its own to include it"
            )
            terms = terms[1:]
        if self.operation == "MAX":
            return reduce(np.maximum, [x for x, _ in terms])
        return reduce(np.add, [x if c == 1 else x * np.float32(c) for x, c in terms])
