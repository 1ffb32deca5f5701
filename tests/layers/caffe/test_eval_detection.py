"""EvalDetection."""

from tests.layers.harness import ramp, rejects

test_rejects_by_name = rejects("EvalDetection", inputs=[ramp(2)], text="Sophgo's EvalDetection is not supported")
