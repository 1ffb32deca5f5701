"""Identity operations, which return their inputs, and constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anylayer.layer import Array, attribute, layer, need
from anylayer.layers._table import OperatorType, operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results_listed_by


def _same(details: str = "") -> OperatorType:
    body = {"harmless": frozenset({"message", "dtype"})}
    return row("Return the input unchanged.", lambda x: x, details=details, body=body)


_SAME = ("Identity", "StopGradient", "PreventGradient", "Snapshot", "ReadVariableOp")
_CHECK = {"CheckNumerics": _same("The check that all values are finite is left out.")}

operators(TensorFlowLayer, "Source: tf.raw_ops.{}.", dict.fromkeys(_SAME, _same()) | _CHECK)


def _is_of_shape(x: Array, shape: Any) -> Any:
    fits = shape is None or (
        len(shape) == len(x.shape) and all(size is None or size == d for size, d in zip(shape, x.shape))
    )
    need(fits, f"the input must have shape {shape}, got {list(x.shape)}")
    return x


def _default(default: Array, *, note: Callable[[str], None]) -> Array:
    note("its default is used, since it is not fed")
    return default


_SHAPE = attribute("any", None)

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "IdentityN": row("Return all inputs unchanged.", lambda *xs: list(xs), "identity_n_op.cc",
            body={"results": results_listed_by("T")}),
        "PlaceholderWithDefault": row("Return the default value, because the network gets no other one.", _default,
            "identity_op.cc", body={"harmless": frozenset({"dtype"}), "shape": _SHAPE}),
        "EnsureShape": row("Return the input unchanged. Raise LayerError if its shape is not `shape`.",
            _is_of_shape, "shape_ops.cc",
            "An unknown size in `shape` fits every size. Without `shape`, every input is accepted.", shape=_SHAPE),
    },
)  # fmt: skip


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


@layer("Const")
class Const(TensorFlowLayer):
    """Return the array that the file holds, with its shape and dtype.

    Source: tf.raw_ops.Const; tensorflow/core/kernels/constant_op.cc.
    """

    dtype: str = attribute("string")

    def forward(self) -> Array:
        need(len(self._blobs) == 1, f"a constant needs one value in the file, got {len(self._blobs)}")
        return self.blob(0, self._blobs[0].shape, what="value")
