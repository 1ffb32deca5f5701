"""EvalDetection (Sophgo)."""

from __future__ import annotations

from typing import ClassVar

from anylayer.layer import layer
from anylayer.layers.caffe._refused import RefusedLayer


@layer("EvalDetection")
class EvalDetection(RefusedLayer):
    """Refuse Sophgo's evaluation of detections, whose own Caffe crashes or returns memory that was never written.

    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "eval_detection_param"
    numbers: ClassVar = {"sophgo": 301}
    reason = "Sophgo's EvalDetection is not supported: its own Caffe crashes, or returns other values in each run"
