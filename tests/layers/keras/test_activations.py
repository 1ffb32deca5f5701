"""Tests of the activation layers."""

from tests.layers.harness import ramp, refuses, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("activations"))

test_rejects_text_for_a_number = rejects(
    "ReLU",
    {"max_value": "6"},
    inputs=[ramp(2)],
    text="must be a number, got '6'",
    format="keras",
)
test_rejects_batch_as_shared_axis = rejects(
    "PReLU",
    {"shared_axes": [0]},
    inputs=[ramp(2, 3)],
    text="shared_axes must not contain the batch axis 0",
    format="keras",
)
test_refusals = refuses(
    "Activation",
    {
        "unknown_activation": (
            {"activation": "rleu"},
            "there is no activation 'rleu' in Keras; did you mean 'relu'?",
        ),
        "activation_that_is_no_name": ({"activation": 3}, "parameter 'activation' must be a name, got 3"),
        "activation_of_user_code": (
            {"activation": {"class_name": "MyAct", "config": {}}},
            "activation 'MyAct' is Python code, which is not run. Save the model with the activation as a "
            "layer of its own, and define that layer's class",
        ),
    },
    format="keras",
    inputs=[ramp(2)],
)
