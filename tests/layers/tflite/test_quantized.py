"""Tests of quantized operators: they are within one step of the recorded integers, and most are equal."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import anylayer
from anylayer.engines import onnxruntime
from anylayer.errors import ConversionError
from anylayer.layers.tflite._quantized import ON_INTEGERS
from anylayer.testing import assert_same
from tests.engine_names import ALL

from .recorded import cases_of

CASES = {**cases_of("quantized.npz"), **cases_of("quantized_states.npz")}
SHARE = 0.8
"""The share of exactly equal integers in each case, at least."""
EXACT = {*ON_INTEGERS, "EQUAL", "GREATER", "LESS", "MAX_POOL_2D", "NOT_EQUAL", "SPACE_TO_BATCH_ND"}
"""Operators of which all integers are equal."""


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("name", CASES)
def test_operator_is_within_a_step_of_the_recorded_integers(name: str, engine: str, tmp_path: Path) -> None:
    case = CASES[name]
    model = anylayer.read(case.save(tmp_path)).compile(engine, threads=1)
    assert not model.host_calls
    got = model(case.inputs)
    assert set(got) == set(case.outputs)
    for output, want in case.outputs.items():
        assert (got[output].dtype, got[output].shape) == (want.dtype, want.shape)
        if want.dtype == np.float32:
            assert_same(got[output], want, name, 1e-5)
            continue
        steps = np.abs(got[output].astype(np.int64) - want)
        is_mean = name.startswith("AVERAGE_POOL_2D") and want.dtype.itemsize == 1
        assert steps.max() <= (0 if is_mean or name.split()[0] in EXACT else 1)
        assert (steps == 0).mean() >= SHARE


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
@pytest.mark.parametrize(
    "name",
    ["CONV_2D int8 same", "DEPTHWISE_CONV_2D uint8 relu6", "TRANSPOSE_CONV int8", "FULLY_CONNECTED int8"],
)
def test_file_keeps_the_integers_of_weights(name: str, suffix: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = anylayer.read(case.save(tmp_path)).write(tmp_path / f"net{suffix}", verify=case.inputs).files[-1]
    if suffix == ".onnx":
        graph = onnx.load(path).graph
        assert {"Conv", "ConvTranspose", "MatMul"} & {n.op_type for n in graph.node}
        weights = max(graph.initializer, key=lambda x: len(x.dims))
        assert weights.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
        assert {n.op_type for n in graph.node if weights.name in n.input} == {"DequantizeLinear"}
    else:
        assert 'element_type="u8"' in path.read_text() or 'element_type="i8"' in path.read_text()


@pytest.mark.parametrize(("error", "accepted"), [(1, True), (2, False)])
def test_file_passes_with_errors_of_one_step(
    error: int, accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, original = CASES["AVERAGE_POOL_2D int8 same"], onnxruntime.open_file

    def changed(*args: Any) -> Any:
        run = original(*args)
        place = np.int8(np.arange(2 * 4 * 3 * 4).reshape(2, 4, 3, 4) == 5)
        return lambda feed: {name: x + place * np.int8(error) for name, x in run(feed).items()}

    monkeypatch.setattr(onnxruntime, "open_file", changed)
    with nullcontext() if accepted else pytest.raises(ConversionError, match="largest difference 2"):
        done = anylayer.read(case.save(tmp_path)).write(tmp_path / "net.onnx", verify=case.inputs)
        assert [c.rule for c in done.checks] == ["steps"]
        assert any("which rounding moves by a step" in note for note in done.notes)


def test_caffe_refuses_quantized_networks(tmp_path: Path) -> None:
    net = anylayer.read(CASES["QUANTIZE int8"].save(tmp_path))
    with pytest.raises(anylayer.AnyLayerError, match="has no layer for QuantizeLinear"):
        net.write(tmp_path / "net.prototxt")


NETWORKS = cases_of("networks.npz")


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_within_two_steps_of_the_recorded_values(name: str, engine: str, tmp_path: Path) -> None:
    case = NETWORKS[name]
    model = anylayer.read(case.save(tmp_path)).compile(engine, threads=1)
    assert not model.host_calls
    got, want = next(iter(model(case.inputs).values())), next(iter(case.outputs.values()))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    step = {"int8": 1.0, "uint8": 1.0, "int16": 2.0**-15, "dynamic": 2.0**-16}[name.split()[1]]
    errors = np.abs(got.astype(np.float64) - want)
    assert errors.max() <= 2 * step
    assert (errors < step / 2).mean() >= 0.7


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
@pytest.mark.parametrize("name", ["mobile int8", "unet int8", "unet dynamic"])
def test_written_network_equals_its_source(name: str, suffix: str, tmp_path: Path) -> None:
    case = NETWORKS[name]
    done = anylayer.read(case.save(tmp_path)).write(tmp_path / f"net{suffix}", verify=case.inputs)
    assert done.checks and all(c.ok for c in done.checks)
