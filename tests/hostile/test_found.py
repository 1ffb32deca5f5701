"""Small networks that fuzzing found: each of them once caused a traceback, a crash or a silent error."""

from __future__ import annotations

import pytest

from .networks import SMALL, input_, layer
from .trial import Trials

REFUSED = {
    "a sink with a top": (
        SMALL + layer("Silence"),
        "LayerError",
        "deploy.prototxt:2: layer 'l' (Silence): it has 1 top, expected none",
    ),
    "billions of classes": (
        input_(1, 5, name="a")
        + layer("DetectionOutput", "detection_output_param { num_classes: 2147483647 }", "aaa"),
        "LayerError",
        "layer 'l' (DetectionOutput): priors must be of shape (1, 2, 4 * number of priors), got (1, 5)",
    ),
    "no priors": (
        input_(1, 0, name="a")
        + input_(1, 2, 0, name="p")
        + layer("DetectionOutput", "detection_output_param { num_classes: 2147483647 }", "aap"),
        "LayerError",
        "layer 'l' (DetectionOutput): the number of priors must be positive, got 0",
    ),
    "priors of no image": (
        input_(1, 8, name="a")
        + input_(0, 2, 8, name="p")
        + layer("DetectionOutput", "detection_output_param { num_classes: 4 }", "aap"),
        "LayerError",
        "layer 'l' (DetectionOutput): priors must be of shape (1, 2, 4 * number of priors), got (0, 2, 8)",
    ),
    "channels of a scalar": (
        input_() + layer("ShuffleChannel"),
        "LayerError",
        "layer 'l' (ShuffleChannel): needs an input (N, C, ...), got shape ()",
    ),
    "a pooling of nothing": (
        input_(1, 2, 11, 0) + layer("Pooling", "pooling_param { pool: AVE kernel_size: 5 stride: 3 pad: 2 }"),
        "EngineError",
        "engine 'onnxruntime' failed: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_network_is_refused(name: str, trials: Trials) -> None:
    text, error, message = REFUSED[name]
    found = trials.run(text)
    assert message in found.text, found
    assert found.end == error


@pytest.mark.parametrize("power", ["inf", "-inf", "nan", "1e30"])
def test_powers_of_extreme_exponents(power: str, trials: Trials) -> None:
    found = trials.run(SMALL + layer("Power", f"power_param {{ power: {power} shift: 0.5 }}"))
    assert found.end == "ok", found


def test_infinite_scale_of_upsample_does_not_end_the_process(trials: Trials) -> None:
    found = trials.run(SMALL + layer("Upsample", "upsample_param { scale: inf }"))
    assert found.end == "ok", found


def test_softmax_over_empty_axis(trials: Trials) -> None:
    found = trials.run(input_(0, 3, 4) + layer("Softmax", "softmax_param { axis: 0 }"))
    assert found.end == "ok", found
