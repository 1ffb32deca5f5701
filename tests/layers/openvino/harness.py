"""Helpers for the tests of OpenVINO layers: `matches` compares an IR with OpenVINO, `refuses` checks an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset15

from anylayer.api import Net
from anylayer.errors import AnyLayerError
from anylayer.network import Array
from anylayer.readers.openvino import read
from anylayer.testing import assert_same
from tests.engine_names import ALL

ENGINES = ALL
_core = ov.Core()


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Return seeded normal noise in float32."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def const(values: Any, dtype: Any = np.int64) -> Any:
    """Return a constant, int64 unless `dtype` or an array states another dtype."""
    array = values if isinstance(values, np.ndarray) else np.array(values, dtype)
    return opset15.constant(array)


def read_net(path: Path) -> Net:
    """Return the network of an IR."""
    return Net(read(path), {})


def save(build: Callable[..., Any], inputs: Sequence[Array], path: Path) -> ov.Model:
    """Write the IR of the result of `build` for parameters with the shapes of these inputs."""
    parameters = [opset15.parameter(list(x.shape), x.dtype, name=f"in{i}") for i, x in enumerate(inputs)]
    built = build(*parameters)
    outputs = list(built) if isinstance(built, (list, tuple)) else built.outputs()
    model = ov.Model(outputs, parameters, "net")
    ov.serialize(model, str(path))
    return model


def reference(path: Path, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs of OpenVINO's CPU plugin, computed in float32."""
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = _core.compile_model(_core.read_model(str(path)), "CPU", config)
    result = compiled(dict(enumerate(inputs)))
    return [np.array(result[i]) for i in range(len(compiled.outputs))]


def matches(
    build: Callable[..., Any],
    *inputs: Array,
    engines: Sequence[str] = ENGINES,
    tolerance: float | None = None,
    want: Sequence[Any] | None = None,
) -> Callable[[Path], None]:
    """Return a test that the IR of `build(*parameters)` matches OpenVINO on every engine.

    `want` are the expected outputs in place of OpenVINO's. The attribute `sample` of the test holds `build`, the
    inputs and the tolerance.
    """

    def test(tmp_path: Path) -> None:
        path = tmp_path / "net.xml"
        save(build, inputs, path)
        expected = [np.asarray(w) for w in want] if want is not None else reference(path, inputs)
        net = read_net(path)
        feed = dict(zip(net.inputs, inputs))
        for engine in engines:
            got = net.compile(engine=engine, threads=1)(feed)
            assert len(got) == len(expected)
            for name, w in zip(net.network.outputs, expected):
                assert_same(got[name], w, f"{engine}, {name}", tolerance)

    test.sample = (build, inputs, tolerance)
    return test


def refuses(build: Callable[..., Any], *inputs: Array, text: str) -> Callable[[Path], None]:
    """Return a test that the IR of `build(*parameters)` is refused with a message that contains `text`."""

    def test(tmp_path: Path) -> None:
        path = tmp_path / "net.xml"
        save(build, inputs, path)
        with pytest.raises(AnyLayerError) as caught:
            read_net(path).compile(engine="numpy")(dict(zip(read_net(path).inputs, inputs)))
        assert text in str(caught.value)

    return test
