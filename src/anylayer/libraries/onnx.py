"""The onnx package: the one file that imports it. Rooms that speak ONNX's protobuf take it from here."""

from __future__ import annotations

import onnx
from onnx import TensorProto, checker, helper, numpy_helper

__all__ = ["TensorProto", "checker", "helper", "numpy_helper", "onnx"]
