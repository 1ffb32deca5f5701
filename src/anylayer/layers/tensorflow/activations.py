"""Activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Operation, attribute, layer, need


@layer("Relu")
class Relu(Operation):
    """max(x, 0)."""

    def forward(self, x: Any) -> Any:
        return ops.relu(x)


@layer("Relu6")
class Relu6(Operation):
    """min(max(x, 0), 6)."""

    def forward(self, x: Any) -> Any:
        return np.clip(x, 0, 6)


@layer("LeakyRelu")
class LeakyRelu(Operation):
    """x where it is positive, else alpha * x."""

    alpha: float = attribute("float", 0.2)

    def forward(self, x: Any) -> Any:
        return ops.leaky_relu(x, self.alpha)


@layer("Elu")
class Elu(Operation):
    """x where it is positive, else exp(x) - 1."""

    def forward(self, x: Any) -> Any:
        return ops.elu(x, 1.0)


@layer("Selu")
class Selu(Operation):
    """Elu, scaled so that it normalises itself (Klambauer et al., arXiv 1706.02515)."""

    def forward(self, x: Any) -> Any:
        return ops.elu(x, 1.6732632423543772) * 1.0507009873554805


@layer("Softplus")
class Softplus(Operation):
    """log(1 + exp(x))."""

    def forward(self, x: Any) -> Any:
        return ops.softplus(x)


@layer("Softsign")
class Softsign(Operation):
    """x / (1 + |x|)."""

    def forward(self, x: Any) -> Any:
        return x / (1 + np.abs(x))


@layer("Sigmoid")
class Sigmoid(Operation):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Any) -> Any:
        return ops.sigmoid(x)


@layer("Softmax")
class Softmax(Operation):
    """exp(x), divided by its sum over the last axis."""

    def forward(self, x: Any) -> Any:
        need(len(x.shape) >= 1, "a scalar has no axis to normalise over")
        return ops.softmax(x, axis=-1)


@layer("LogSoftmax")
class LogSoftmax(Operation):
    """x less the logarithm of the sum of exp(x) over the last axis."""

    def forward(self, x: Any) -> Any:
        need(len(x.shape) >= 1, "a scalar has no axis to normalise over")
        return ops.log_softmax(x, axis=-1)
