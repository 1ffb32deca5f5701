"""Mistakes in a user's class are refused with their place, and the class is called once."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, InputError, LayerError
from anylayer.layer import Layer
from tests.engine_names import ALL

INPUT = 'layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }\n'
NET = INPUT + 'layer { name: "u" type: "U" bottom: "d" top: "u" u_param { stride: 2 pad: 1 } }\n'
X = np.ones((1, 3, 4, 4), np.float32)
ENGINES = ["numpy", "onnxruntime"]


def run(tmp_path: Path, cls: Any, engine: str = "numpy") -> Any:
    (tmp_path / "net.prototxt").write_text(NET)
    return anylayer.read(tmp_path / "net.prototxt", layers=[("U", cls)]).compile(engine)({"d": X})["u"]


def made(**methods: Any) -> type:
    base = {"__init__": lambda self, params, blobs: None, "forward": lambda self, inputs: [inputs[0]]}
    return type("U", (), {**base, **methods})


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "shapes",
    [
        [["a"]],
        [[1.0, 3.0, 4.0, 4.0]],
        [1, 3, 4, 4],
        None,
        "abc",
        7,
        {"u": [1, 3, 4, 4]},
        [[1, 3, 4, None]],
        [None],
        [Unprintable()],
        [[[1, 3, 4, 4]]],
        np.ones((1, 4)),
        [[1, 3, 4, float("nan")]],
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_getmemoryshapes_must_return_shapes(tmp_path: Path, shapes: Any, engine: str) -> None:
    rule = (
        r"net.prototxt:2: layer 'u' \(U\): getMemoryShapes must return a list of shapes, got .*\. Return one list"
    )
    with pytest.raises(LayerError, match=rule):
        run(tmp_path, made(getMemoryShapes=lambda self, inputs: shapes), engine)


@pytest.mark.parametrize(
    "shapes", [[[1, 3, 4, 4]], ((1, 3, 4, 4),), np.array([[1, 3, 4, 4]]), [np.int64([1, 3, 4, 4])]]
)
def test_getmemoryshapes_may_return_any_integers(tmp_path: Path, shapes: Any) -> None:
    assert np.array_equal(run(tmp_path, made(getMemoryShapes=lambda self, inputs: shapes)), X)


@pytest.mark.parametrize("engine", ENGINES)
def test_impossible_sizes_are_refused(tmp_path: Path, engine: str) -> None:
    with pytest.raises(LayerError, match=r"getMemoryShapes returns \(1, -3, 4, 4\), a size cannot be negative"):
        run(tmp_path, made(getMemoryShapes=lambda self, inputs: [[1, -3, 4, 4]]), engine)
    with pytest.raises(
        AnyLayerError, match=r"output 0 has shape \(1, 3, 4, 4\), getMemoryShapes declares \(10{30},"
    ):
        run(tmp_path, made(getMemoryShapes=lambda self, inputs: [[10**30, 3, 4, 4]]), engine)


OUTPUTS = [
    (None, "forward must return a list of arrays, got NoneType"),
    (X, "forward must return a list of arrays, got an array"),
    ({"u": X}, "forward must return a list of arrays, got dict"),
    ([None], "output 0 of forward is a NoneType, not an array. Return NumPy arrays"),
    ([X.tolist()], "output 0 of forward is a list, not an array"),
    (["text"], "output 0 of forward is a str, not an array"),
    ([1.5], "output 0 of forward is a float, not an array"),
    ([X * 1j], "output 0 of forward is an array of complex64. Return arrays of real numbers of at most"),
    ([X.astype(object)], "output 0 of forward is an array of object."),
    ([np.array(["a"])], "output 0 of forward is an array of <U1."),
    ([np.ma.masked_equal(X, 1)], "output 0 of forward is a masked array."),
    ([X, X], "forward returns 2 outputs, the node has 1"),
    (iter([X]), "forward must return a list of arrays, got list_iterator"),
]


@pytest.mark.parametrize(("result", "rule"), OUTPUTS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore:.*runs in Python")
def test_forward_must_return_arrays(tmp_path: Path, result: Any, rule: str, engine: str) -> None:
    with pytest.raises(LayerError, match=re.escape(f"net.prototxt:2: layer 'u' (U): {rule}")):
        run(tmp_path, made(forward=lambda self, inputs: result), engine)


def _raise(error: BaseException) -> Any:
    raise error


class OddText(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("name", ["__init__", "getMemoryShapes", "forward"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore:.*runs in Python")
@pytest.mark.parametrize(
    ("error", "rule"),
    [
        (SystemExit(0), r"ends the program \(SystemExit: 0\) \(.*test_user_classes.py:\d+\)\. Raise an exception"),
        (GeneratorExit(), r"ends the program \(GeneratorExit: \)"),
        (asyncio.CancelledError("late"), r"ends the program \(CancelledError: late\)"),
        (BaseException("bare"), r"ends the program \(BaseException: bare\)"),
        (StopIteration(), r"raises StopIteration: "),
        (OddText(), r"raises OddText: \(its text cannot be shown\)"),
        (MemoryError("no"), r"raises MemoryError: no"),
        (RecursionError("deep"), r"raises RecursionError: deep"),
    ],
)
def test_every_exception_names_the_layer(
    tmp_path: Path, name: str, engine: str, error: BaseException, rule: str
) -> None:
    cls = made(**{name: lambda *args: _raise(error)})
    cls.__module__ = __name__  # by which its file is found
    with pytest.raises(LayerError, match=rf"net.prototxt:2: layer 'u' \(U\): (?:{name}|<lambda>|U) {rule}"):
        run(tmp_path, cls, engine)


def test_keyboard_interrupt_is_not_caught(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, made(forward=lambda self, inputs: _raise(KeyboardInterrupt())))


def test_exit_in_a_later_call_names_the_layer(tmp_path: Path) -> None:
    def forward(self: Any, inputs: Any) -> Any:
        if inputs[0].max() > 50:
            sys.exit(0)
        return [inputs[0]]

    (tmp_path / "net.prototxt").write_text(NET)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("U", made(forward=forward))])
    with pytest.warns(UserWarning, match="runs in Python"):
        model = net.compile("onnxruntime")
    for _ in range(3):
        model({"d": X})
    with pytest.raises(LayerError, match=r"layer 'u' \(U\): forward ends the program \(SystemExit: 0\)"):
        model({"d": X * 100})


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        ("U", "layers must be files, 'Type=file.py:Class' or (type, class) pairs, got ('U', 'U')"),
        (made(forward=None), "the class has no forward(inputs)"),
        (made(forward=3), "forward must be a method, got int"),
        (made(getMemoryShapes=[[1, 3, 4, 4]]), "getMemoryShapes must be a method, got list"),
        (made(forward=property(lambda self: _raise(ValueError("odd")))), "forward raises ValueError: odd"),
    ],
)
def test_class_without_the_methods_is_refused(tmp_path: Path, cls: Any, rule: str) -> None:
    with pytest.raises((LayerError, InputError), match=re.escape(rule)):
        run(tmp_path, cls)


class Plain(Layer):
    """A typed layer."""

    message = "u_param"
    stride: int = anylayer.field(1, "int32", 1)
    pad: int = anylayer.field(2, "int32", 0)

    def forward(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("methods", "rule"),
    [
        ({"setup": lambda self: 1 / 0}, "setup raises ZeroDivisionError: division by zero"),
        ({"setup": lambda self: sys.exit(3)}, "setup ends the program (SystemExit: 3)"),
        ({"forward": 3}, "forward must be a method, got int"),
        ({"forward": lambda self, x: None}, "output 0 of forward is a NoneType, not an array"),
        ({"forward": lambda self, x: "x"}, "output 0 of forward is a str, not an array"),
        ({"forward": lambda self, x: sys.exit(0)}, "forward ends the program (SystemExit: 0)"),
    ],
)
def test_typed_class_is_checked_as_well(tmp_path: Path, methods: Any, rule: str) -> None:
    with pytest.raises(LayerError, match=re.escape(f"net.prototxt:2: layer 'u' (U): {rule}")):
        run(tmp_path, type("Wrong", (Plain,), methods))


def test_missing_param_is_refused_with_the_params_of_the_node(tmp_path: Path) -> None:
    rule = r"raises KeyError: 'strid' .*; the params of this node are: stride, pad$"
    with pytest.raises(LayerError, match=rule):
        run(tmp_path, made(__init__=lambda self, params, blobs: params["strid"], __module__=__name__))

    def later(self: Any, params: Any, blobs: Any) -> None:
        self.params = params

    with pytest.raises(LayerError, match=rule):
        run(
            tmp_path,
            made(
                __init__=later,
                forward=lambda self, inputs: [inputs[0] * self.params["strid"]],
                __module__=__name__,
            ),
        )
    with pytest.raises(LayerError, match=r"raises KeyError: 'stride' \([^;]*$"):
        run(tmp_path, made(forward=lambda self, inputs: {}["stride"], __module__=__name__))


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.filterwarnings("ignore:.*runs in Python")
def test_instance_is_made_once(tmp_path: Path, engine: str, traced: bool) -> None:
    calls: list[str] = []

    class Counted:
        def __init__(self, params: Any, blobs: Any) -> None:
            calls.append("__init__")
            self.params, self.state = params, {"start": [1, 2], "table": np.ones(4, np.float32)}

        def getMemoryShapes(self, inputs: Any) -> Any:
            calls.append("getMemoryShapes")
            self.height = inputs[0][2]
            return [inputs[0]]

        def finalize(self, inputs: Any, outputs: Any) -> None:
            calls.append("finalize")
            self.total = sum(x.size for x in inputs) + outputs[0].shape[3]

        def forward(self, inputs: Any) -> Any:
            factor = np.float32(self.height + self.total)
            return [inputs[0] * factor if traced or inputs[0].max() < 100 else inputs[0]]

    assert np.array_equal(run(tmp_path, Counted, engine), X * (4 + 48 + 4))
    assert calls == ["__init__", "getMemoryShapes", "finalize"]


def test_instance_whose_state_cannot_be_copied_is_made_again(tmp_path: Path) -> None:
    calls: list[str] = []

    class Held:
        def __init__(self, params: Any, blobs: Any) -> None:
            calls.append("__init__")
            self.random = np.random.default_rng(0)

        def forward(self, inputs: Any) -> Any:
            return [inputs[0] + self.random.random((1, 3, 4, 4)).astype(np.float32)]

    with pytest.warns(UserWarning, match="forward draws random numbers"):
        got = run(tmp_path, Held, "onnxruntime")
    assert np.array_equal(got, X + np.random.default_rng(0).random((1, 3, 4, 4)).astype(np.float32))
    assert len(calls) > 1


def test_state_that_forward_changes_is_reset(tmp_path: Path) -> None:
    class Counts:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.table, self.seen = np.zeros(1, np.float32), [0]

        def forward(self, inputs: Any) -> Any:
            self.table += 1
            self.seen[0] += 1
            return [inputs[0] * self.table * np.float32(self.seen[0])]

    (tmp_path / "net.prototxt").write_text(NET)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("U", Counts)])
    with pytest.warns(UserWarning, match=r"self.table is written to, but state that is kept between two calls"):
        model = net.compile("onnxruntime")
    start = float(model({"d": X})["u"].max())
    plain = net.compile("numpy")
    assert float(plain({"d": X})["u"].max()) == 1
    assert start in (1, 4)  # at most the trial call that tells the output's shape stands before it


def test_finalize_with_another_signature_is_not_called(tmp_path: Path) -> None:
    assert np.array_equal(run(tmp_path, made(finalize=lambda self: 1 / 0)), X)
    with pytest.raises(LayerError, match=r"finalize\(inputs, outputs\) needs getMemoryShapes"):
        run(tmp_path, made(finalize=lambda self, inputs, outputs: None))


def test_class_may_change_its_blobs(tmp_path: Path) -> None:
    class Doubles:
        def __init__(self, params: Any, blobs: Any) -> None:
            blobs[0][...] *= 2
            self.weight = blobs[0]

        def forward(self, inputs: Any) -> Any:
            return [inputs[0] * self.weight]

    (tmp_path / "net.prototxt").write_text(NET)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("U", Doubles)])
    weights = np.ones(1, np.float32)
    weights.flags.writeable = False
    net.network.nodes[0].blobs = [weights]
    for engine in ALL:
        assert np.array_equal(net.compile(engine)({"d": X})["u"], X * 2)
