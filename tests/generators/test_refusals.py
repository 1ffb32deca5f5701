"""Layers that a target cannot have are refused by name, with what works instead, before any folder appears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from anylayer.generators import targets

LOOPS = ("opencv", "onnxruntime", "openvino", "dv")
NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 6 } } }
layer { name: "mine" type: "Mine" bottom: "data" top: "mine" }
"""


def refusal(folder: Path, target: str, forward: Any) -> str:
    """Return the message for a network whose layer Mine has this forward."""

    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            return [forward(inputs[0])]

    (folder / "net.prototxt").write_text(NET)
    net = anylayer.read(folder / "net.prototxt", layers={"Mine": Mine})
    with pytest.raises(LayerError, match=r"net.prototxt:3: layer 'mine' \(Mine\): ") as caught:
        net.generate(target, folder / "project", test=False)
    assert not (folder / "project").exists()
    return str(caught.value)


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize(
    ("forward", "why"),
    [
        (lambda x: x[x > 0].reshape(1, -1), "has a size that is known only when the network runs"),
        (lambda x: x + 1 if float(x.sum()) > 0 else x, "float() needs the values of a traced array"),
        (lambda x: np.abs(np.fft.fft(x)), "np.fft.fft cannot be expressed in ONNX operators"),
    ],
    ids=["size of data", "branch on data", "unknown function"],
)
def test_layers_that_cannot_be_traced_are_refused(target: str, forward: Any, why: str, tmp_path: Path) -> None:
    text = refusal(tmp_path, target, forward)
    assert why in text and "test_refusals.py" in text
    assert text.endswith("Write its forward so that it can be recorded") and "keep" not in text.split(". Write")[1]


@pytest.mark.parametrize("target", LOOPS)
def test_dtypes_without_loops_are_refused(target: str, tmp_path: Path) -> None:
    if target == "openvino":
        pytest.importorskip("openvino", reason="openvino is not installed")
    text = refusal(tmp_path, target, lambda x: x.astype(np.float16) * 2)
    assert "cannot become loops: an array is float16; convert it with .astype(np.float32) before" in text
