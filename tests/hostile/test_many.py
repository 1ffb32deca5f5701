"""Files with many small parts take time in proportion to their size, or are refused because of the number."""

from __future__ import annotations

import pytest

from tests.readers.files import layer as stored
from tests.readers.files import message, shape, string

from .networks import SMALL, input_, layer
from .trial import Trials

_MANY = 10_000
_INPUT = 'layer { name: "i%d" type: "Input" top: "i%d" input_param { shape { dim: 1 } } }\n'
_JOIN = 'layer { name: "e%d" type: "Eltwise" bottom: "e%d" bottom: "i%d" top: "e%d" }\n'

TEXTS = {
    "layers of one name": 'layer { name: "x" type: "Y" }\n' * _MANY,
    "rewritings": input_(1) + 'layer { name: "x" type: "Y" bottom: "data" top: "data" }\n' * _MANY,
    "inputs joined one by one": "".join(_INPUT % (i, i) for i in range(_MANY))
    + layer("Eltwise", "", ["i0", "i1"], ["e1"])
    + "".join(_JOIN % (i, i - 1, i, i) for i in range(2, 2000)),
    "unknown types": input_(1)
    + "".join(f'layer {{ name: "x" type: "Conv{i}" bottom: "data" }}\n' for i in range(_MANY)),
    "bottoms": SMALL + layer("Y", "", ["data"] * _MANY),
    "fields": SMALL + layer("Y", f"y_param {{ {' '.join(f'a{i}: {i}' for i in range(_MANY))} }}"),
    "rules": SMALL + layer("Y", " ".join(f'include {{ stage: "a{i}" }}' for i in range(_MANY))),
}


@pytest.mark.one_per()
@pytest.mark.parametrize("name", TEXTS)
def test_time_is_linear(name: str, trials: Trials) -> None:
    found = trials.run(TEXTS[name], engines=())
    assert found.end == "ok", found
    assert found.seconds < 20  # seconds of processor time; 0.5 to 3 are usual


FILES = {
    "layers": (
        'layer { name: "x" type: "Y" }\n' * 50_001,
        "deploy.prototxt: the network has 50001 layers; the limit is 50000",
    ),
    "blobs": (
        stored("l", message(7) * 1001),
        "net.caffemodel: layer 'l': blob 1000: the layer has more than 1000 blobs, which is the limit",
    ),
    "shapes of a blob": (
        stored("l", message(7, shape(1) * 33)),
        "net.caffemodel: layer 'l': blob 0: has a shape with more than 32 axes",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_too_many_parts_are_refused(name: str, trials: Trials) -> None:
    data, message_ = FILES[name]
    if isinstance(data, str):
        assert trials.run(data, engines=()).text == message_
        return
    assert trials.run(data, name="net.caffemodel", engines=()).text == message_
    assert (
        trials.run(SMALL + layer("InnerProduct", "inner_product_param { num_output: 1 }"), data).text == message_
    )


def test_last_value_of_a_repeated_field_is_used(trials: Trials) -> None:
    twice = message(100, string(1, "a"), string(2, "X"), string(1, "b"), string(2, "ReLU"))
    assert trials.run(twice, name="net.caffemodel", engines=()).text == "takes 1 input, got 0"
