"""Layers that are known by name and refused, since no source states exactly what they compute."""

from __future__ import annotations

from typing import ClassVar

from anylayer.layer import Layer, Node, layer, need


class RefusedLayer(Layer):
    """A layer that is refused. `reason` ends the message about it."""

    reason: ClassVar[str] = ""

    def prepare(self, node: Node, dialect: str | None) -> None:
        need(False, f"{self.reason}. Define the layer in a layers file")


@layer("EvalDetection")
class EvalDetection(RefusedLayer):
    """Refuse Sophgo's evaluation of detections, whose own Caffe crashes or returns memory that was never written.

    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "eval_detection_param"
    numbers: ClassVar = {"sophgo": 301}
    reason = "Sophgo's EvalDetection is not supported: its own Caffe crashes, or returns other values in each run"


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
