"""Operators NumPy lacks: each has a NumPy meaning and an ONNX form, in one file. See docs/operators.md."""

from anylayer.ops.softmax import softmax

__all__ = ["softmax"]
