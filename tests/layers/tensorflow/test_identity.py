"""Tests of the identity operations."""

import numpy as np

from tests.layers.harness import case, ramp
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_identity_matches_tensorflow = as_tensorflow("Identity")
test_ensure_shape_rejects_other_shape = rejects(
    "EnsureShape", {"shape": [1, None]}, np.zeros((2, 3)), text="the input must have shape [1, None], got [2, 3]"
)
test_identity_n_rejects_unknown_attribute = rejects(
    "IdentityN", {"T": "float32", "K": 1}, np.zeros(2), text="attr has no field 'K'"
)
test_identity_n = case(
    "IdentityN",
    {"T": ["float32", "float32"]},
    inputs=[ramp(2), ramp(2, 3)],
    outputs=[ramp(2), ramp(2, 3)],
    format="tensorflow",
)
test_placeholder_with_default = case(
    "PlaceholderWithDefault",
    inputs=[ramp(2)],
    outputs=[ramp(2)],
    notes=["its default is used, since it is not fed"],
    format="tensorflow",
)
