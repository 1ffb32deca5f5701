"""RetinaFaceDetection."""

from tests.layers.harness import ramp, rejects

test_rejects_by_name = rejects(
    "RetinaFaceDetection", inputs=[ramp(2)], text="Sophgo's RetinaFaceDetection is not supported"
)
