"""Operators that reshape, rearrange, select, repeat and pad."""

from __future__ import annotations

import math

from anylayer.layer import attribute
from anylayer.layers._arrays import concatenate
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import operators

operators(
    {
        "Flatten flatten": row("Reshape to (N, values of a sample).",
            lambda x: x.reshape(x.shape[0], math.prod(x.shape[1:])), "tensor/matrix_op.cc"),
        "Concat concat": row("Concatenate arrays along axis dim.", lambda *xs, dim: concatenate(xs, dim, "dim"),
            "nn/concat.cc", dim=attribute("int32", 1)),
    },
)  # fmt: skip
