"""Dense layers, tables, masks, layers that do nothing at inference, and code, which is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, wording
from anylayer.layer import attribute, layer, need
from anylayer.layers._table import define, operators, row
from anylayer.layers.keras._base import KerasLayer, PassesMask
from anylayer.layers.keras.activations import activation as activation_of
from anylayer.network import Array


def _dense(x: Array, *, units: int, use_bias: bool, activation: Any, blob: Any, dialect: str | None) -> Array:
    need(len(x.shape) >= 2, f"takes an input of rank 2 or more, got {tuple(x.shape)}")
    y = x @ blob(0, (x.shape[-1], units), what="kernel")
    y = y + blob(1, (units,), what="bias") if use_bias else y
    return activation_of(activation, dialect)(y)


operators(
    KerasLayer,
    "Weights: kernel (channels, units), bias (units,).\n    Source: keras/src/layers/core/dense.py.",
    {
        "Dense": row("Compute activation(x @ kernel + bias) over the last axis.", _dense,
            details="(N, ..., channels) to (N, ..., units).",
            units=attribute("int64", doc="number of outputs"),
            use_bias=attribute("bool", True, doc="whether a bias is added"),
            activation=attribute("any", None, doc="activation function of the output")),
    },
    masks="passes",
    __module__=__name__,
)  # fmt: skip


@layer("EinsumDense")
class EinsumDense(KerasLayer):
    """Compute activation(einsum(equation, x, kernel) + bias).

    The shapes are those of the equation, for example (N, a, c) to (N, a, d) for abc,cd->abd.
    Weights: kernel with the axes of the equation; bias with the axes bias_axes, if given.
    Source: keras/src/layers/core/einsum_dense.py.
    """

    masks = "passes"

    equation: str = attribute("string", doc="for example abc,cd->abd")
    output_shape: Any = attribute("any", doc="shape of the output, without the batch")
    bias_axes: Any = attribute("any", None, doc="letters of the output axes along which the bias varies")
    activation: Any = attribute("any", None, doc="activation function of the output")

    def forward(self, x: Array) -> Array:
        first, kernel, result, sizes_in, sizes_out = self._shapes(x)
        sizes = {**dict(zip(result, sizes_out)), **dict(zip(first, sizes_in))}
        need(
            all(c in sizes for c in kernel),
            f"equation '{self.equation}': input and output_shape do not determine all sizes of '{kernel}'",
        )
        w = self.blob(0, tuple(sizes[c] for c in kernel), what="kernel")
        y = np.einsum(f"{first},{kernel}->{result}", x, w)
        if self.bias_axes:
            need(
                set(self.bias_axes) <= set(result),
                f"bias_axes '{self.bias_axes}' must be among the axes '{result}' of the output",
            )
            first_kept = min(result.index(c) for c in self.bias_axes)
            shape = tuple(sizes[c] if c in self.bias_axes else 1 for c in result[first_kept:])
            y = y + self.blob(1, shape, what="bias")
        return activation_of(self.activation, self.dialect)(y)

    def _shapes(self, x: Array) -> tuple[str, str, str, tuple[int, ...], tuple[Any, ...]]:
        """Return the letters of input, kernel and output, with `...` expanded, and the known sizes."""
        left, _, result = self.equation.replace(" ", "").partition("->")
        first, _, kernel = left.partition(",")
        rank = len(x.shape)
        free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in self.equation]
        more = "".join(free[: max(rank - len(first.replace("...", "")), 0)])
        first, result = first.replace("...", more), result.replace("...", more)
        need(
            bool(kernel) and kernel.isalpha() and first.isalpha() and len(first) == rank,
            f"equation '{self.equation}' does not fit an input {tuple(x.shape)}",
        )
        shape = self.output_shape if isinstance(self.output_shape, list) else [self.output_shape]
        dimensions = [*([None] * (len(result) - len(shape))), *shape]
        size_of = {c: n for c, n in zip(result, dimensions) if n is not None}
        return first, kernel, result, tuple(x.shape), tuple(size_of.get(c) for c in result)


@layer("Embedding")
class Embedding(KerasLayer):
    """Return the row of a table for each integer.

    (N, ...) integers to (N, ..., output_dim); with mask_zero the second output is the mask x != 0.
    Weights: embeddings (input_dim, output_dim).
    Source: keras/src/layers/core/embedding.py.
    """

    harmless = frozenset({"input_length"})
    masks = "makes"

    input_dim: int = attribute("int64", doc="number of rows of the table")
    output_dim: int = attribute("int64", doc="size of a row")
    mask_zero: bool = attribute("bool", False, doc="whether the integer 0 masks its step")
    weights: Any = attribute("any", None, doc="initial values of the table; no effect once the weights are stored")

    @classmethod
    def makes_mask(cls, config: Mapping[str, Any]) -> bool:
        return config.get("mask_zero") is True

    def forward(self, x: Array) -> list[Array]:
        table = self.blob(0, (self.input_dim, self.output_dim), what="embeddings")
        rows = x.astype(np.int64)
        return [ops.gather(table, rows, axis=0), rows != 0][: self.outputs]


def _mask(x: Array, *, mask_value: float, outputs: int) -> list[Array]:
    other = (x != np.float32(mask_value)).astype(np.float32)
    is_real = np.max(other, axis=-1, keepdims=True)
    return [x * is_real, is_real[..., 0] > 0][:outputs]


operators(
    KerasLayer,
    "Source: keras/src/layers/core/masking.py.",
    {
        "Masking": row("Set the steps whose elements all equal mask_value to 0, and mask them.", _mask,
            details="(N, T, ...) to the same shape; the second output is the mask (N, T).",
            mask_value=attribute("double", 0.0, doc="value of the steps that are masked")),
    },
    masks="makes",
    __module__=__name__,
)  # fmt: skip


class IdentityLayer(PassesMask):
    """A layer that returns its input at inference."""

    def _harmless(self, name: str) -> bool:
        return True

    def forward(self, x: Array, mask: Any = None) -> Array:
        for index, blob in enumerate(self._blobs):
            self.blob(index, blob.shape, what="state of random numbers")
        return x


@layer("Layer")
class Base(PassesMask):
    """Return the input: the base class of Keras 2 itself.

    (N, ...) to the same shape. The base class of Keras 3 cannot be called. Source: keras.layers.Layer of Keras 2.
    """

    def forward(self, x: Array, mask: Any = None) -> Array:
        need(
            not self._blobs,
            f"is of type Layer, the base class of Keras, but has {len(self._blobs)} weights, so it is a class of "
            "the user's own. Give a class for it",
        )
        return x


_TRAINING: dict[str, str] = {
    "Dropout": "sets random elements to 0",
    "SpatialDropout1D": "sets random channels to 0",
    "SpatialDropout2D": "sets random channels to 0",
    "SpatialDropout3D": "sets random channels to 0",
    "AlphaDropout": "replaces random elements",
    "GaussianDropout": "multiplies the elements by noise",
    "GaussianNoise": "adds noise to the elements",
    "ActivityRegularization": "adds a cost of large values",
    "RandomFlip": "flips images at random",
    "RandomRotation": "rotates images at random",
    "RandomZoom": "zooms images at random",
    "RandomTranslation": "translates images at random",
    "RandomContrast": "changes the contrast at random",
    "RandomBrightness": "changes the brightness at random",
    "RandomShear": "shears images at random",
    "RandomColorJitter": "changes colors at random",
    "RandomHue": "changes the hue at random",
    "RandomSaturation": "changes the saturation at random",
    "RandomSharpness": "changes the sharpness at random",
    "RandomGrayscale": "removes the colors at random",
    "RandomErasing": "erases random parts of images",
    "RandomPerspective": "changes the perspective at random",
    "RandomGaussianBlur": "blurs images at random",
    "RandomElasticTransform": "distorts images at random",
    "MixUp": "mixes images of a batch",
    "CutMix": "exchanges parts of images of a batch",
}
"""What each layer does while training."""
_SAME = "(N, ...) to the same shape. Source: keras.layers.{}."

define("Identity", IdentityLayer, "Return the input.", _SAME.format("Identity"))
for _name, _what in _TRAINING.items():
    define(_name, IdentityLayer, f"Return the input; while training, the layer {_what}.", _SAME.format(_name))


@layer("Lambda")
class Lambda(KerasLayer):
    """Refuse Python code that is stored in the file, since it is not run.

    Source: keras/src/layers/core/lambda_layer.py.
    """

    role = "code"

    def _harmless(self, name: str) -> bool:
        return True

    def setup(self) -> None:
        raise LayerError(
            "is Python code stored in the file, which is not run. Write it as a class registered "
            f"under the layer's own name, @anylayer.layer({self.name!r}), and give the file: "
            + wording("layers=['layers.py']", "-l layers.py")
            + ". To begin one: anylayer stub MODEL -o layers.py"
        )
