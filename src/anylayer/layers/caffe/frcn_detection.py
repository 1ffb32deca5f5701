"""FrcnDetection (Sophgo)."""

from __future__ import annotations

from typing import ClassVar

from anylayer.layer import layer
from anylayer.layers.caffe._refused import Refused


@layer("FrcnDetection")
class FrcnDetection(Refused):
    """Refuse Sophgo's detections of Faster R-CNN, whose rule is not known.

    Source: the Caffe in tpu-mlir 1.30.2 (executed), which crashes in most networks where several boxes are left.
    """

    message = "frcn_detection_param"
    numbers: ClassVar = {"sophgo": 305}
    reason = "Sophgo's FrcnDetection is not supported, since its rule is not known; its own Caffe crashes with it"
