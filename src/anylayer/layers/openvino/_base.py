"""What all OpenVINO operations share: attributes as fields, opset versions, limits on shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from anylayer.layer import Enum, Layer, Message, Node, need

NEWEST = 17
"""The newest opset that is supported."""
SPECIFICATION = "Source: OpenVINO operation specification, {}."
SAME_SHAPE = "The output has the shape of x."
"""Sentences of the docstrings of operations in tables."""
DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "boolean": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
"""The NumPy dtype of each element type."""


def dtype_of(name: str, what: str) -> Any:
    """Return the NumPy dtype of an OpenVINO element type."""
    need(name in DTYPES, f"{what} '{name}' is not supported; types: {', '.join(DTYPES)}")
    return np.dtype(DTYPES[name])


class OpenVINOLayer(Layer):
    """An OpenVINO operation, whose attributes are fields.

    `opset` is the number of the opset that the file states for it, or 1 where it states none. The meaning of an
    operation may depend on it.
    """

    message = "data"
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Names of the attributes that no output depends on."""
    opset: int

    def prepare(self, node: Node, dialect: str | None) -> None:
        version = str(node.params.get("version", "opset1"))
        opset = re.fullmatch(r"opset(\d{1,3})", version)
        self.opset = int(opset[1]) if opset else 0
        need(
            1 <= self.opset <= NEWEST,
            f"is of version '{version}', but only opset1 to opset{NEWEST} are supported. Define an operation of "
            "an extension by a class in a layers file",
        )
        data = node.params.get("data", {})
        fields = {name: value for name, value in data.items() if name not in self.harmless}
        super().prepare(replace(node, params={"data": fields}), dialect)

    def _take(self, target: Message, name: str, node: Node) -> None:
        """Read the attributes as the file means them.

        An empty text is an empty list, enum values match in either case, and "-" in an attribute's name is read as
        "_".
        """
        data = node.params.get(name, {})
        if isinstance(data, Mapping):
            meant = {k.replace("-", "_"): self._meant(k.replace("-", "_"), v) for k, v in data.items()}
            node = replace(node, params={**node.params, name: meant})
        super()._take(target, name, node)

    def _meant(self, name: str, value: Any) -> Any:
        declared = self.fields.get(name)
        if declared is None or not isinstance(value, str):
            return value
        if declared.repeated and not value:
            return []
        return value.lower() if isinstance(declared.kind, Enum) else value
