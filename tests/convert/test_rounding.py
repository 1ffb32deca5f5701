"""The tolerance of outputs in which float32 itself rounds more than the tolerance of one layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.engines import onnxruntime
from anylayer.errors import ConversionError

TEXT = """
input: "data" input_shape { dim: 1 dim: 2000 }
layer { name: "sum" type: "InnerProduct" bottom: "data" top: "sum"
  inner_product_param { num_output: 4 bias_term: false } }
"""


@pytest.mark.parametrize("source", ["caffe", "onnx", "openvino"])
@pytest.mark.parametrize(("times", "accepted"), [(0, True), (2, True), (8, False)])
def test_tolerance_follows_from_rounding_of_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: float, accepted: bool, source: str
) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 2000)).astype(np.float32)
    weights = random.standard_normal((4, 2000)).astype(np.float32)
    weights -= (weights @ x[0] / (x @ x[0]))[:, None] * x  # the products cancel each other
    (tmp_path / "net.prototxt").write_text(TEXT)
    net = anylayer.read(tmp_path / "net.prototxt")
    net.network.nodes[0].blobs = [weights]
    if source != "caffe":
        file = tmp_path / {"onnx": "source.onnx", "openvino": "source.xml"}[source]
        net.write(file, verify={"data": np.abs(x)})
        net = anylayer.read(file)
    want = net.compile("numpy")(x)["sum"]
    rounding = np.abs(want - x.astype(np.float64) @ weights.T.astype(np.float64)).max()
    assert rounding > 1e-5 * np.abs(want).max()

    def inexact(run: Any) -> Any:
        return lambda feed: {name: want + np.float32(times * rounding) for name in run(feed)}

    def write() -> Any:
        return net.write(tmp_path / "net.onnx", verify={"data": x})

    original = onnxruntime.open_file
    monkeypatch.setattr(onnxruntime, "open_file", lambda *args: inexact(original(*args)))
    monkeypatch.setattr("anylayer.convert.regimes._MAX_ROUNDING", np.inf)
    if accepted:
        done = write()
        assert [(c.ok, c.rule) for c in done.checks] == [(True, "float64" if times else "share")]
        assert done.accepted_by == ["float64" if times else "share"] == done.to_dict()["accepted_by"]
        assert any("no more than float32 itself rounds" in note for note in done.notes) == bool(times)
    else:
        with pytest.raises(ConversionError, match="output 'sum' differs from the source"):
            write()
