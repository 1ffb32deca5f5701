"""FrcnDetection."""

from tests.layers.harness import ramp, rejects

test_rejects_by_name = rejects("FrcnDetection", inputs=[ramp(2)], text="Sophgo's FrcnDetection is not supported")
