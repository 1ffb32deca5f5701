"""A user's class cannot change the caller's arrays or the weights of other layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.layer import Layer
from tests.engine_names import ALL

NET = """
layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 4 } } }
layer { name: "mine" type: "Mine" bottom: "d" top: "m" }
layer { name: "r" type: "ReLU" bottom: "d" top: "r" }
"""
TWICE = """
layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 4 } } }
layer { name: "one" type: "Mine" bottom: "d" top: "a" }
layer { name: "two" type: "Mine" bottom: "a" top: "b" }
"""
ENGINES = ALL


def read(folder: Path, cls: Any, text: str = NET, blobs: Any = ()) -> anylayer.Net:
    """Read a network whose layers of type Mine have this class and these blobs."""
    (folder / "net.prototxt").write_text(text)
    net = anylayer.read(folder / "net.prototxt", layers=[("Mine", cls)])
    for node in net.network.nodes:
        node.blobs = list(blobs) if node.type == "Mine" else []
    return net


def compiled(net: anylayer.Net, engine: str) -> anylayer.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return net.compile(engine=engine, threads=1)


def _at(x: Any) -> None:
    np.add.at(x, [0, 0], 1)


def _at_by_name(x: Any) -> None:
    getattr(np.subtract, "at")(x, [0], 1)  # noqa: B009 (the tracer cannot see a name in a string)


def _made_writeable(x: Any) -> None:
    x.flags.writeable = True
    x[0] += 1


def _set_writeable(x: Any) -> None:
    x.setflags(write=True)
    x[0] += 1


def _base(x: Any) -> None:
    (x if x.base is None else x.base)[0] += 1


def _assigned(x: Any) -> None:
    x[0] += 1


@pytest.mark.parametrize("write", [_at, _at_by_name, _made_writeable, _set_writeable, _base, _assigned])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("typed", [False, True])
def test_write_to_an_input_does_not_reach_the_caller(
    write: Callable[[Any], None], engine: str, typed: bool, tmp_path: Path
) -> None:
    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            x = inputs[0]
            if float(str(x.max())) > 1e9:
                return inputs
            write(x)
            return [x * 1]

    class Typed(Layer):
        def forward(self, x: Any) -> Any:
            return Mine({}, ()).forward([x])[0]

    x = np.arange(4, dtype=np.float32)
    want = x.copy()
    write(want)
    model = compiled(read(tmp_path, Typed if typed else Mine), engine)
    for _ in range(3):
        found = model({"d": x})
        np.testing.assert_array_equal(found["m"], want)
        np.testing.assert_array_equal(found["r"], [0, 1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


@pytest.mark.parametrize("write", [_at, _set_writeable, _assigned])
@pytest.mark.parametrize("engine", ENGINES)
def test_write_to_a_blob_does_not_reach_other_layers(
    write: Callable[[Any], None], engine: str, tmp_path: Path
) -> None:
    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.scale = blobs[0]

        def forward(self, inputs: Any) -> Any:
            write(self.scale)
            return [inputs[0] * self.scale]

    blob, own, x = np.ones(4, np.float32), np.ones(4, np.float32), np.ones(4, np.float32)
    model = compiled(read(tmp_path, Mine, TWICE, [blob]), engine)
    for _ in range(3):
        write(own)
        np.testing.assert_array_equal(model({"d": x})["b"], own * own)
    np.testing.assert_array_equal(blob, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_blob_that_init_changes_is_changed_once(engine: str, tmp_path: Path) -> None:
    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.scale = blobs[0]
            self.scale *= 2

        def forward(self, inputs: Any) -> Any:
            return [inputs[0] * self.scale]

    blob = np.ones(4, np.float32)
    model = compiled(read(tmp_path, Mine, TWICE, [blob]), engine)
    np.testing.assert_array_equal(model({"d": np.ones(4, np.float32)})["b"], 4)
    np.testing.assert_array_equal(blob, 1)


def test_first_call_that_writes_is_repeated_with_a_new_instance(tmp_path: Path) -> None:
    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.calls = 0

        def forward(self, inputs: Any) -> Any:
            self.calls += 1
            inputs[0][:] += self.calls
            return [inputs[0]]

    model = compiled(read(tmp_path, Mine), "numpy")
    x = np.zeros(4, np.float32)
    assert [float(model({"d": x})["m"][0]) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_warnings_reach_a_class_that_turns_them_into_exceptions(engine: str, tmp_path: Path) -> None:
    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            x = inputs[0]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    return [1 / x]
                except RuntimeWarning:
                    return [x + 100]

    model = compiled(read(tmp_path, Mine), engine)
    x = np.arange(4, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(model({"d": x})["m"], x + 100)
        np.testing.assert_allclose(model({"d": x + 1})["m"], 1 / (x + 1), rtol=1e-6)
