"""Embed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need, samples
from anylayer.layers.caffe._messages import FillerParameter, filler_if_written
from anylayer.network import Array


@layer("Embed")
class Embed(Layer):
    """Return the row of a table for each integer, plus a bias.

    Integers (...), stored as floats, to (..., num_output). An integer outside 0..input_dim-1 is undefined.
    Weights: the table (input_dim, num_output), the bias (num_output,).
    Source: BVLC/caffe src/caffe/layers/embed_layer.cpp.
    """

    message = "embed_param"
    samples: ClassVar = {0: samples.rows}
    numbers = {"": 137}
    num_output: int = field(1, "uint32", doc="length of a row")
    input_dim: int = field(2, "uint32", doc="number of rows")
    bias_term: bool = field(3, "bool", True, doc="add a bias")
    weight_filler: FillerParameter = field(4, FillerParameter, doc="values of the table without a file")
    bias_filler: FillerParameter = field(5, FillerParameter, doc="values of the bias without a file; default 0")

    def setup(self) -> None:
        need(self.num_output > 0, "num_output must be positive, got 0")
        need(self.input_dim > 0, "input_dim must be positive, got 0")

    def forward(self, x: Array) -> Array:
        filler = filler_if_written(self.weight_filler, self.has("weight_filler"))
        table = self.blob(0, (self.input_dim, self.num_output), filler)
        y = ops.gather(table, x.astype(np.int64))
        if not self.bias_term:
            return y
        return y + self.blob(1, (self.num_output,), self.bias_filler, what="bias")
