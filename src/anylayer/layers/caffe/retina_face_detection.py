"""RetinaFaceDetection (Sophgo)."""

from __future__ import annotations

from typing import ClassVar

from anylayer.layer import layer
from anylayer.layers.caffe._refused import RefusedLayer


@layer("RetinaFaceDetection")
class RetinaFaceDetection(RefusedLayer):
    """Refuse Sophgo's detections of RetinaFace, whose NMS drops boxes without any overlap by an unknown rule.

    Source: the Caffe in tpu-mlir 1.30.2 (executed): of ten boxes that do not overlap, five are returned.
    """

    message = "retinaface_detection_param"
    numbers: ClassVar = {"sophgo": 302}
    reason = (
        "Sophgo's RetinaFaceDetection is not supported: its NMS drops boxes that overlap no other, by a rule that "
        "is not known. End the network before it, and decode the nine maps"
    )
