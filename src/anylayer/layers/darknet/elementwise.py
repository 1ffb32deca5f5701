"""Sections that keep the shape of their input."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, field, layer, need
from anylayer.layers._table import define
from anylayer.layers.darknet._base import ACTIVATION, ACTIVATIONS, DarknetLayer
from anylayer.layers.darknet._tree import softmax_of_groups


@layer("activation")
class Activation(DarknetLayer):
    """Apply `activation`.

    Source: AlexeyAB/darknet src/activation_layer.c.
    """

    activation: str = attribute(ACTIVATION, doc="the function that is applied to the result")

    def forward(self, x: Array) -> Array:
        return ACTIVATIONS[self.activation](x)


class Identity(DarknetLayer):
    """A section that returns its input, except while training."""

    prefix = "identity"

    def forward(self, x: Array) -> Array:
        return x


define(
    "dropout",
    Identity,
    "Return the input. While training, the section drops values.",
    "Source: AlexeyAB/darknet src/dropout_layer.c.",
    ignored=r"probability|dropblock(_size_(rel|abs))?",
)
define(
    "cost",
    Identity,
    "Return the input, of which training computes a loss.",
    "Source: AlexeyAB/darknet src/cost_layer.c; opencv modules/dnn/src/darknet/darknet_io.cpp.",
    ignored=r"type|scale|ratio",
)


@layer("soft")
@layer("softmax")
class Softmax(DarknetLayer):
    """Compute softmax over all values of a sample, over each of `groups` parts, or over channels with `spatial`.

    The output has the shape of the input. Values are divided by `temperature` before. OpenCV computes the softmax
    over channels in every case. With `tree` it is computed over the children of each class.
    Source: AlexeyAB/darknet src/softmax_layer.c; pjreddie/darknet src/softmax_layer.c (`spatial`).
    """

    ignored = r"noloss"
    groups: int = field(0, "int32", 1, least=1, doc="number of parts")
    temperature: float = attribute("float", 1.0, doc="the divisor of values")
    spatial: bool = attribute("bool", False, doc="whether it is computed over channels")
    tree: tuple[int, ...] = attribute("int32", repeated=True, doc="the parents of classes, from a file")

    def forward(self, x: Array) -> Array:
        need(self.temperature != 0, "temperature must not be 0")
        if self.temperature != 1:
            x = x * np.float32(1 / self.temperature)
        count = math.prod(x.shape[1:])
        if self.tree:
            return softmax_of_groups(x.reshape(x.shape[0], count), self.tree).reshape(x.shape)
        if self.spatial:
            need(self.groups == 1, f"spatial needs groups=1, got {self.groups}")
            return ops.softmax(x, axis=1)
        need(count % self.groups == 0, f"groups={self.groups} does not divide {count} values")
        return ops.softmax(x.reshape(x.shape[0], self.groups, count // self.groups), axis=2).reshape(x.shape)
