"""Tests of networks that detect: SSD, Faster R-CNN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError
from anylayer.testing import assert_same
from tests.layers.mxnet.recorded import as_recorded, recorded

test_networks_match_the_recorded_results = as_recorded("ssd", "rcnn", file="detection")


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("name", ["ssd of a batch", "rcnn of a batch"])
def test_networks_are_converted(name: str, suffix: str, tmp_path: Path) -> None:
    case = recorded("detection")[name]
    path = tmp_path / f"net.{suffix}"
    case.read(tmp_path).write(path, shapes=case.shapes)
    for result, expected in zip(anylayer.read(path).compile("numpy")(case.inputs).values(), case.outputs):
        assert_same(result, expected, name, 1e-5)


def test_batch_of_ssd_may_be_open(tmp_path: Path) -> None:
    case = recorded("detection")["ssd"]
    case.read(tmp_path).write(tmp_path / "net.onnx", shapes={"data": ("N", *case.shapes["data"][1:])})
    several = recorded("detection")["ssd of a batch"]
    (result,) = anylayer.read(tmp_path / "net.onnx").compile("onnxruntime")(several.inputs).values()
    assert_same(result, several.outputs[0], "a batch", 1e-5)


def test_symbol_of_training_is_read_without_its_losses(tmp_path: Path) -> None:
    case = recorded("detection")["training of ssd"]
    net = anylayer.read(*case.save(tmp_path), outputs="detection")
    assert [*net.inputs] == ["data"]
    (result,) = net.compile("numpy", shapes=case.shapes)(case.inputs).values()
    assert_same(result, case.outputs[3], "the detections", 1e-5)
    with pytest.raises(
        AnyLayerError, match=r"multibox_target.*export the symbol for deployment, without the losses"
    ):
        case.read(tmp_path).compile("numpy", shapes=case.shapes)(
            dict(case.inputs, label=np.zeros((1, 2, 5), "f4"))
        )
