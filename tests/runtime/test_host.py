"""Host calls: every call is checked and protected, not only the first."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from anylayer.layer import Layer
from tests.engine_names import GENERAL
from tests.threads import in_threads

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "a" type: "ReLU" bottom: "data" top: "a" }
layer { name: "mine" type: "Mine" bottom: "a" top: "m" }
layer { name: "z" type: "Power" bottom: "m" top: "z" power_param { scale: 2 } }
"""
X = np.arange(4, dtype=np.float32).reshape(1, 4)
CLASS = """
import numpy as np

class Mine:
    def __init__(self, params, blobs):
        self.calls = 0
        self.kept = np.zeros((1, 4), np.float32)
    def forward(self, inputs):
        x = inputs[0]
        if float(str(x.max())) > 1e30: return [x]
        self.calls += 1
{body}
"""


@pytest.fixture(params=GENERAL)
def compiled(request: Any, tmp_path: Path) -> Any:
    def make(body: str, text: str = NET) -> anylayer.Model:
        (tmp_path / "net.prototxt").write_text(text)
        lines = "\n".join(f"        {line}" for line in body.splitlines())
        (tmp_path / "mine.py").write_text(CLASS.format(body=lines))
        net = anylayer.read(tmp_path / "net.prototxt", layers=[f"Mine={tmp_path / 'mine.py'}:Mine"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = net.compile(engine=request.param)
        assert len(model.host_calls) == 1
        return model

    return make


def test_every_call_calls_forward(compiled: Any) -> None:
    model = compiled("return [x + 1]")
    for k in range(5):
        assert np.array_equal(model(X * k)["z"], (X * k + 1) * 2)


@pytest.mark.parametrize(
    ("late", "text"),
    [
        ("return [x[:, :3]]", r"output 0 of forward is float32\[1, 3\]; it was float32\[1, 4\] when"),
        ("return [7]", "output 0 of forward is a int, not an array"),
        ("return []", "forward returns 0 outputs, the node has 1"),
        ("return x", "forward must return a list of arrays, got an array"),
        ("return [inputs[9]]", r"forward raises IndexError: .*mine.py:\d+\)"),
    ],
)
def test_error_in_a_later_call_is_named(compiled: Any, late: str, text: str) -> None:
    model = compiled(f"if float(str(x.max())) > 50: {late}\nreturn [x + 1]")
    for _ in range(3):
        assert np.array_equal(model(X)["z"], (X + 1) * 2)
    with pytest.raises(LayerError, match=r"net.prototxt:\d+: layer 'mine' \(Mine\): " + text):
        model(X * 100)
    assert np.array_equal(model(X)["z"], (X + 1) * 2)


@pytest.mark.parametrize(
    "body",
    [
        "return [np.linalg.solve(x.T @ x + np.diag(x[0]), x.T).T]",
        "best = [v for v in x[0] if v > 0]\nreturn [x / min(best)]",
        "return None if float(str(x.max())) == 0 else [np.roll(x, int(x.argmax()))]",
        "sides = [v for v in (3.5, 16.0) if v < float(str(x.max()))]\nreturn [x * max(sides)]",
    ],
)
def test_class_that_does_not_take_zeros_is_tried_with_noise(compiled: Any, body: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec("def forward(x):\n" + "".join(f"    {line}\n" for line in body.splitlines()), space)
    assert np.allclose(compiled(body)(X + 1)["z"], space["forward"](X + 1)[0] * 2)


def test_class_that_takes_neither_zeros_nor_noise_is_refused_with_the_remedy(compiled: Any) -> None:
    text = "forward raises KeyError.*It ran on zeros.*getMemoryShapes.*It cannot be recorded, either: mine.py:"
    with pytest.raises(LayerError, match=text):
        compiled("return [{100.0: x}[float(x[0, 0])]]")


def test_class_is_tried_with_the_constants_that_it_reads(tmp_path: Path) -> None:
    params = "dummy_data_param { shape { dim: 1 } data_filler { value: 3 } }"
    data = f'layer {{ name: "n" type: "DummyData" top: "n" {params} }}\n'
    (tmp_path / "net.prototxt").write_text(NET.replace('layer { name: "mine"', data + 'layer { name: "mine"', 1))

    class Mine(Layer):
        def forward(self, x: Any, count: Any) -> Any:
            return x * float(x[0, 0]) + np.zeros((int(count[0]), 1), np.float32)

    text = (
        (tmp_path / "net.prototxt").read_text().replace('bottom: "a" top: "m"', 'bottom: "a" bottom: "n" top: "m"')
    )
    (tmp_path / "net.prototxt").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = anylayer.read(tmp_path / "net.prototxt", layers={"Mine": Mine}).compile("onnxruntime")
    assert model.outputs["z"].shape == (3, 4)
    assert np.array_equal(model(X + 1)["z"], np.repeat(X + 1, 3, 0) * 2)


def test_anylayer_error_raised_by_a_class_gets_its_place(compiled: Any) -> None:
    model = compiled(
        "from anylayer.errors import LayerError\n"
        "if float(str(x.max())) > 50: raise LayerError('too large')\nreturn [x + 1]"
    )
    model(X)
    with pytest.raises(LayerError, match=r"^[^:]*net.prototxt:\d+: layer 'mine' \(Mine\): too large$"):
        model(X * 100)


def test_other_dtype_in_a_later_call_is_cast(compiled: Any) -> None:
    model = compiled("return [(x + 1).astype(np.float64 if float(str(x.max())) > 50 else np.float32)]")
    for k in (1, 100, 1):
        got = model(X * k)["z"]
        assert got.dtype == np.float32
        assert np.array_equal(got, (X * k + 1) * 2)


def test_write_to_an_input_in_a_later_call_changes_no_other_value(compiled: Any) -> None:
    text = NET + 'layer { name: "q" type: "Power" bottom: "a" top: "q" }'
    model = compiled("if float(str(x.max())) > 50: x += 1\nelse: x = x + 1\nreturn [x]", text)
    for k in (1, 1, 100, 100, 1):
        got = model(X * k)
        assert np.array_equal(got["z"], (X * k + 1) * 2)
        assert np.array_equal(got["q"], X * k)


def test_buffer_that_a_class_keeps_is_copied(compiled: Any) -> None:
    for body in (
        "np.add(x, 1, out=self.kept)\nreturn [self.kept]",
        "np.add(x, 1, out=self.kept)\nreturn [self.kept.reshape(1, 4)]",
        "np.add(x, 1, out=self.kept)\nself.list = [self.kept]\ndel self.kept\n"
        "self.kept = self.list[0]\nreturn self.list",
    ):
        model = compiled(body, NET.split('layer { name: "z"')[0])
        first, second = model(X)["m"], model(X * 5)["m"]
        third = model(X * 7)["m"]
        assert np.array_equal(first, X + 1)
        assert np.array_equal(second, X * 5 + 1)
        assert np.array_equal(third, X * 7 + 1)


def test_new_output_array_is_not_copied(compiled: Any) -> None:
    model = compiled("self.address = (y := x + 1).ctypes.data\nreturn [y]", NET.split('layer { name: "z"')[0])
    instance = next(t for t in model.plan.nodes if t.is_host_call).bound.instance
    for _ in range(3):
        assert model(X)["m"].ctypes.data == instance.address


def test_numpy_warnings_in_forward_are_silent(compiled: Any) -> None:
    model = compiled("return [x / (x - x) if float(str(x.max())) > 50 else x + 1]")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(X)
        assert not np.isfinite(model(X * 100)["z"]).any()


def test_one_thread_at_a_time_is_in_a_class(compiled: Any) -> None:
    model = compiled("before = self.calls\nfor _ in range(50): y = x + 1\nself.calls = before + 1\nreturn [y]")
    instance = next(t for t in model.plan.nodes if t.is_host_call).bound.instance
    start = instance.calls
    in_threads(lambda _: [model(X) for _ in range(30)], range(4))
    assert instance.calls == start + 2 * 120  # one for the line, one for the class's own count


def test_typed_layer_can_be_a_host_call(tmp_path: Path) -> None:
    class Mine(Layer):
        def forward(self, x: Any) -> Any:
            return x + 1 if float(str(x.max())) < 50 else x[:, :2]

    (tmp_path / "net.prototxt").write_text(NET)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Mine)])
    with pytest.warns(UserWarning, match="runs in Python"):
        model = net.compile(engine="onnxruntime")
    for _ in range(3):
        assert np.array_equal(model(X)["z"], (X + 1) * 2)
    with pytest.raises(LayerError, match=r"layer 'mine' \(Mine\): output 0 of forward is float32\[1, 2\]"):
        model(X * 100)


def test_named_tuple_of_outputs_is_accepted(tmp_path: Path) -> None:
    class Pair(NamedTuple):
        low: Any
        high: Any

    class Mine(Layer):
        def forward(self, x: Any) -> Any:
            return Pair(x + 1, x + 2) if float(str(x.max())) < 50 else (x, x)

    text = NET.replace('top: "m" }', 'top: "m" top: "n" }')
    (tmp_path / "net.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Mine)])
    with pytest.warns(UserWarning, match="runs in Python"):
        model = net.compile(engine="onnxruntime")
    for _ in range(3):
        got = model(X)
        assert np.array_equal(got["z"], (X + 1) * 2)
        assert np.array_equal(got["n"], X + 2)
