"""An error names another engine only if that engine runs the network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import anylayer
from anylayer.engines import load_engine
from anylayer.errors import EngineError
from tests.readers.onnx.files import model, save, value

_LARGE = np.array([2**40, 7])


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> anylayer.Net:
    monkeypatch.chdir(tmp_path)
    return anylayer.read(save(model([helper.make_node("Neg", ["x"], ["y"])], [value("x", (2,), np.int64)], ["y"])))


def test_engine_that_runs_the_call_is_the_remedy(net: anylayer.Net) -> None:
    with pytest.raises(EngineError, match=r"input 'x' holds 1099511627776\. Use engine 'onnxruntime'$"):
        net.compile("openvino")(_LARGE)


def test_engine_that_refuses_the_network_is_no_remedy(net: anylayer.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise EngineError("refused")

    monkeypatch.setattr(load_engine("onnxruntime"), "compile", refuse)
    with pytest.raises(EngineError, match=r"input 'x' holds 1099511627776$"):
        net.compile("openvino")(_LARGE)


def test_engine_that_compiles_is_the_remedy_of_a_refusal_to_compile(
    net: anylayer.Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise EngineError("no")

    monkeypatch.setattr(load_engine("openvino"), "compile", refuse)
    with pytest.raises(EngineError, match=r"no\. Use engine 'onnxruntime'$"):
        net.compile("openvino")
