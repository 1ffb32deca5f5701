"""Tests of Bidirectional and TimeDistributed."""

import pytest

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded
from tests.layers.open_sizes import ALL, row, tried

globals().update(recorded("wrappers"))

test_rejects_unknown_merge_mode = rejects(
    "Bidirectional",
    {"layer": {}, "merge_mode": "max"},
    inputs=[ramp(1, 4, 3)],
    text="merge_mode must be concat, sum, ave, mul or none, got 'max'",
    format="keras",
)
test_bidirectional_rejects_dense = rejects(
    "Bidirectional",
    {name: {"class_name": "Dense", "config": {"units": 2}} for name in ("layer", "backward_layer")},
    inputs=[ramp(1, 4, 3)],
    text="wraps a layer that is not recurrent",
    format="keras",
)
test_rejects_unknown_layer = rejects(
    "TimeDistributed",
    {"layer": {"class_name": "Mine", "config": {}}},
    inputs=[ramp(1, 4, 3)],
    text="wraps a Mine, which is not supported in a wrapper",
    format="keras",
)
test_rejects_input_of_rank_2 = rejects(
    "TimeDistributed",
    {"layer": {"class_name": "Dense", "config": {"units": 2}}},
    inputs=[ramp(4, 3)],
    text="takes a sequence of rank 3 or more, got (4, 3)",
    format="keras",
)
test_rejects_number_as_layer = rejects(
    "TimeDistributed",
    {"layer": 3},
    inputs=[ramp(1, 4, 3)],
    text="the wrapped layer must be a configuration with class_name and config, got 3",
    format="keras",
)
test_join_rejects_vector = rejects(
    "TimeDistributed.join",
    {},
    inputs=[ramp(4)],
    text="takes a sequence of rank 2 or more, got (4,)",
    format="keras",
)


@pytest.mark.parametrize("type_", ["Bidirectional", "RNN"])
def test_layer_that_wraps_another_has_open_sizes(type_: str) -> None:
    assert row(tried("keras")[type_]) == (ALL, "")
