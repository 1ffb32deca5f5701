"""Functions of elements: arithmetic, comparisons, casts."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Array, Layer, need
from anylayer.layers._table import computes
from anylayer.layers.mxnet._base import need_one_dtype, operators


def _need_one_type(self: Layer, *xs: Array) -> None:
    need_one_dtype(self, *xs)
    shapes = [tuple(x.shape) for x in xs]
    need(all(shape == shapes[0] for shape in shapes), f"all inputs must have one shape, got {shapes}")


operators(
    {
        "elemwise_add _plus _Plus _add _grad_add": computes("a + b", np.add, "elemwise_binary_op_basic.cc"),
        "elemwise_sub _minus _Minus _sub": computes("a - b", np.subtract, "elemwise_binary_op_basic.cc"),
        "elemwise_mul _mul _Mul": computes("a * b", np.multiply, "elemwise_binary_op_basic.cc"),
        "elemwise_div _div _Div": computes("a / b", np.true_divide, "elemwise_binary_op_basic.cc"),
    },
    "a and b have one shape and dtype.\n    Source: src/operator/tensor/{} of MXNet.",
    check=_need_one_type,
)
