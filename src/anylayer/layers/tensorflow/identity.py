"""Identity operations, which return their inputs, and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anylayer.layer import Array, attribute, layer, need
from anylayer.layers._table import OperatorType, operators, row
from anylayer.layers.tensorflow._base import TensorFlowLayer


def _same(details: str = "") -> OperatorType:
    body = {"harmless": frozenset({"message", "dtype"})}
    return row("Return the input unchanged.", lambda x: x, details=details, body=body)


_SAME = ("Identity", "StopGradient", "PreventGradient", "Snapshot", "ReadVariableOp")
_CHECK = {"CheckNumerics": _same("The check that all values are finite is left out.")}

operators(TensorFlowLayer, "Source: tf.raw_ops.{}.", dict.fromkeys(_SAME, _same()) | _CHECK)


@layer("IdentityN")
class IdentityN(TensorFlowLayer):
    """Return all inputs unchanged.

    Source: tf.raw_ops.IdentityN; tensorflow/core/kernels/identity_n_op.cc.
    """

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        types = attr.get("T")
        need(isinstance(types, list), "attribute 'T' must be a list of dtypes")
        return (("output", len(types or ())),)

    def forward(self, *xs: Array) -> Any:
        return list(xs)


@layer("Dropout")
class Dropout(TensorFlowLayer):
    """Return the input unchanged, as dropout does in inference.

    TensorFlow has no operation of this name: it is a function of the user, for example one that calls
    tf.layers.dropout. If the file defines the function, the definition is used; files for inference may lack it.
    Source: OpenCV modules/dnn/src/tensorflow/tf_importer.cpp.
    """

    def forward(self, x: Array) -> Array:
        self.note("the file lacks the function 'Dropout', which is taken to return its input")
        return x


@layer("PlaceholderWithDefault")
class PlaceholderWithDefault(TensorFlowLayer):
    """Return the default value, because the network gets no other one.

    Source: tf.raw_ops.PlaceholderWithDefault; tensorflow/core/kernels/identity_op.cc.
    """

    shape: Any = attribute("any", None)
    harmless = frozenset({"dtype"})

    def forward(self, default: Array) -> Any:
        self.note("its default is used, since it is not fed")
        return default


@layer("EnsureShape")
class EnsureShape(TensorFlowLayer):
    """Return the input unchanged. Raise LayerError if its shape is not `shape`.

    An unknown size in `shape` fits every size. Without `shape`, every input is accepted.
    Source: tf.raw_ops.EnsureShape; tensorflow/core/kernels/shape_ops.cc.
    """

    shape: Any = attribute("any", None)

    def forward(self, x: Array) -> Any:
        expected = self.shape
        fits = expected is None or (
            len(expected) == len(x.shape) and all(w is None or w == d for w, d in zip(expected, x.shape))
        )
        need(fits, f"the input must have shape {expected}, got {list(x.shape)}")
        return x


@layer("Const")
class Const(TensorFlowLayer):
    """Return the array that the file holds, with its shape and dtype.

    Source: tf.raw_ops.Const; tensorflow/core/kernels/constant_op.cc.
    """

    dtype: str = attribute("string")

    def forward(self) -> Array:
        need(len(self._blobs) == 1, f"a constant needs one value in the file, got {len(self._blobs)}")
        return self.blob(0, self._blobs[0].shape, what="value")
