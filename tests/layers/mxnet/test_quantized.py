"""Tests of MXNet's quantized operators, and of networks that it quantizes or fuses for oneDNN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.testing import assert_same
from tests.engine_names import ALL

from .recorded import as_recorded, recorded

_CASES = [name for name in recorded("quantized") if name.startswith("_contrib")]


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("name", _CASES)
def test_operators_match_the_recorded_results_within_one_step(name: str, engine: str, tmp_path: Path) -> None:
    """In most cases all numbers are equal. oneDNN rounds sums of float32 in another order."""
    case = recorded("quantized")[name]
    results = [*case.read(tmp_path).compile(engine, shapes=case.shapes)(case.inputs).values()]
    assert [y.dtype for y in results] == [y.dtype for y in case.outputs]
    for y, expected in zip(results, case.outputs):
        if y.dtype in (np.int8, np.uint8):
            difference = np.abs(y.astype(int) - expected.astype(int))
            assert difference.max() <= 1
            assert (difference > 0).mean() <= 0.02
        else:
            assert_same(y.astype(np.float64), expected.astype(np.float64), name, 1e-5)


REFUSED = {
    "no int8": ("_contrib_quantized_act", {"in0": np.uint8}, "takes int8, got uint8"),
    "float": ("_contrib_dequantize int8", {"in0": np.float32}, "an array of float32 is not quantized"),
    "mixed sum": (
        "_contrib_quantized_elemwise_add int8",
        {"in0": np.uint8},
        "needs min_calib_range and max_calib_range for uint8 and int8",
    ),
    "bias": (
        "_contrib_quantized_conv",
        {"in0": np.int8},
        "int8 with a bias is not supported: MXNet computes it on GPUs only",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operators_refuse_other_dtypes(name: str, tmp_path: Path) -> None:
    case_name, dtypes, text = REFUSED[name]
    case = recorded("quantized")[case_name]
    inputs = {n: np.abs(x.astype(int)).astype(dtypes[n]) if n in dtypes else x for n, x in case.inputs.items()}
    net = case.read(tmp_path)
    for node, dtype in dtypes.items():
        net.network.dtypes[node] = np.dtype(dtype)
    with pytest.raises(anylayer.AnyLayerError, match=text):
        net.compile("numpy", shapes=case.shapes)(inputs)


def test_fused_layer_without_a_range_is_refused(tmp_path: Path) -> None:
    case = recorded("quantized")["network"]
    files = case.save(tmp_path)
    files[0].write_text(files[0].read_text().replace("max_calib_range", "__max__"))
    with pytest.raises(anylayer.AnyLayerError, match="and max_calib_range: an output of int32 is not"):
        anylayer.read(*files).compile("numpy", shapes=case.shapes)(case.inputs)


test_fused_network_matches_the_recorded_results = as_recorded("fused", file="quantized")


@pytest.mark.parametrize("engine", ALL)
def test_layers_of_quantized_network_match_within_one_step(engine: str, tmp_path: Path) -> None:
    """A number that is one step off in one layer may be one step off in the next."""
    case = recorded("quantized")["layers"]
    results = [*case.read(tmp_path).compile(engine, shapes=case.shapes)(case.inputs).values()]
    assert {y.dtype.name for y in results} == {"int8", "uint8"}
    for y, expected in zip(results, case.outputs):
        assert y.dtype == expected.dtype
        difference = np.abs(y.astype(int) - expected.astype(int))
        assert difference.max() <= 1
        assert (difference > 0).mean() <= 0.05


@pytest.mark.parametrize("engine", ALL)
def test_quantized_network_matches_within_steps_of_its_last_layer(engine: str, tmp_path: Path) -> None:
    case = recorded("quantized")["network"]
    (y,) = case.read(tmp_path).compile(engine, shapes=case.shapes)(case.inputs).values()
    assert_same(y, case.outputs[0], "the network", 5e-3)
