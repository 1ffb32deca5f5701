"""Clip."""

import numpy as np

from tests.layers.harness import Case, case, ramp, reads, rejects

test_limits = case("Clip", {"min": -1, "max": 2}, inputs=[[-3, -1, 0.5, 2, 9]], outputs=[[-1, -1, 0.5, 2, 2]])
test_min_above_max = case("Clip", {"min": 0.5, "max": -0.5}, inputs=[[-3, 0, 0.2, 9]], outputs=[[0.5] * 4])
test_max_is_required = rejects("Clip", {"min": 0}, inputs=[ramp(2)], text="parameter 'max' is missing")
test_read = reads(
    'layer { name: "c" type: "Clip" bottom: "in0" top: "y" clip_param { min: 0 max: 6 } }', min=0.0, max=6.0
)


def test_nan_becomes_min_in_numpy_as_in_caffe() -> None:
    x = np.float32([[np.nan, 3, -np.inf, np.inf]])
    assert Case("Clip", {"min": -1, "max": 2}, inputs=[x], outputs=[x]).bind()([x])[0].tolist() == [[-1, 2, -1, 2]]
