"""Code that writes text, or changes state, where the data decide: what the network does not do is said."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.cli import main
from anylayer.errors import AnyLayerError
from anylayer.network import Array

from .test_loops import in_onnxruntime
from .test_selections import in_openvino

Function = Callable[[Array], Any]
LOG = logging.getLogger("test_output")
SEEN: list[Any] = []
STATUS = SimpleNamespace(is_large=False, count=0, columns=0)
LEVEL = "low"


def in_a_branch(x: Array) -> Any:
    if x.sum() > 1:
        print("large")
        return x * 2
    return x


def in_a_loop_until_nothing_is_left(x: Array) -> Any:
    order, keep = np.argsort(-x, kind="stable"), []
    while order.size > 0:
        print("next")
        keep.append(order[0])
        order = order[1:][x[order[1:]] < x[order[0]] - 0.5]
    return np.array(keep, np.int64)


def in_a_recorded_loop(x: Array) -> Any:
    total = np.float32(0)
    for i in range(len(x)):
        if x[i] > 0:
            sys.stdout.write("positive")
            total += x[i]
        elif x[i] < -1:
            total -= x[i]
    return total


def to_the_standard_error(x: Array) -> Any:
    y = x[x > 0]
    if len(y) == 0:
        print("nothing", file=sys.stderr)
        return np.zeros(0, np.float32)
    return y


def to_a_log(x: Array) -> Any:
    if x.max() > 1:
        LOG.error("large")
        return x - 1
    return x


def as_a_warning(x: Array) -> Any:
    return x + 1 if x.min() > 0 else _warned(x)


def _warned(x: Array) -> Any:
    warnings.warn("not positive", stacklevel=1)
    return x


def outside_of_branches(x: Array) -> Any:
    print("shape", x.shape)
    return x + 1


NOTED = [
    (in_a_branch, "print", 2),
    (in_a_loop_until_nothing_is_left, "print", 3),
    (in_a_recorded_loop, "sys.stdout.write", 4),
    (to_the_standard_error, "print", 3),
    (to_a_log, "LOG.error", 2),
    (as_a_warning, "warnings.warn", 5),
    (outside_of_branches, "print", 1),
]


@pytest.mark.filterwarnings("ignore:not positive")
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize(("function", "call", "line"), NOTED, ids=[f.__name__ for f, *_ in NOTED])
def test_text_that_a_file_does_not_write_is_noted(
    function: Function, call: str, line: int, suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / f"f.{suffix}"
    x = np.linspace(-1, 2, 7, dtype=np.float32)
    done = anylayer.export(function, x, path=file)
    place = f"test_output.py:{function.__code__.co_firstlineno + line}"
    lost = [note for note in done.notes if "is not part of the network" in note]
    assert lost == [
        f"function '{function.__name__}': {place}: what {call}(...) writes appears while the code is traced, and "
        "is not part of the network"
    ]
    run = in_onnxruntime(file) if suffix == "onnx" else in_openvino(file)
    for k, scale in enumerate((1, -1, 0, 0.1, -3)):
        y = np.roll(x * np.float32(scale), k)
        (got,) = run({"x": y}).values()
        np.testing.assert_allclose(got, function(y), rtol=1e-6)


def kept_in_memory(x: Array) -> Any:
    buffer = io.StringIO()
    print("a text", file=buffer)
    buffer.write("another one")
    LOG.debug("not shown")
    return x * np.float32(len(buffer.getvalue()))


def test_text_that_is_not_shown_needs_no_note(tmp_path: Path) -> None:
    x = np.ones(3, np.float32)
    notes = anylayer.export(kept_in_memory, x, path=tmp_path / "f.onnx").notes
    assert not any("is not part of the network" in note for note in notes)


LAYER = """
import anylayer

@anylayer.layer("Talk")
class Talk:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        x = inputs[0]
        if x.sum() > 0:
            print("positive")
            return [x * 2]
        return [x]
"""
NETWORK = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "y" type: "Talk" bottom: "data" top: "y" }
"""


def test_a_compiled_layer_that_prints_warns_once(tmp_path: Path) -> None:
    (tmp_path / "talk.py").write_text(LAYER)
    (tmp_path / "net.prototxt").write_text(NETWORK)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[tmp_path / "talk.py"])
    with pytest.warns(UserWarning, match=r"layer 'y' \(Talk\): talk\.py:12: what print\(\.\.\.\) writes"):
        model = net.compile("onnxruntime")
    assert not model.host_calls
    assert model({"data": np.ones((1, 3), np.float32)})["y"].sum() == 6
    assert any("talk.py:12: what print(...) writes" in note for note in net.inspect().notes)


def appends_to_a_global(x: Array) -> Any:
    if x.sum() > 0:
        SEEN.append(1)
        return x * 2
    return x


def sets_an_attribute(x: Array) -> Any:
    if x.sum() > 0:
        STATUS.is_large = True
        return x * 2
    return x


def sets_an_attribute_otherwise(x: Array) -> Any:
    if x.sum() > 0:
        return x * 2
    STATUS.is_large = True
    return x


def sets_a_global(x: Array) -> Any:
    global LEVEL
    if x.sum() > 0:
        LEVEL = "high"
        return x * 2
    return x


def sets_an_attribute_in_a_loop(x: Array) -> Any:
    total = np.float32(0)
    for i in range(len(x)):
        if x[i] > 0:
            STATUS.count = 7
            total += x[i]
        elif x[i] < -1:
            total -= x[i]
    return total


def appends_to_a_closure(x: Array) -> Any:
    total = np.float32(0)
    for i in range(len(x)):
        if x[i] > 0:
            SEEN.append(i)
            total += x[i]
        elif x[i] < -1:
            total -= x[i]
    return total


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (appends_to_a_global, "SEEN"),
        (sets_an_attribute, r"STATUS\.is_large is set where the values of the arrays decide"),
        (sets_an_attribute_otherwise, r"STATUS\.is_large is set where the values of the arrays decide"),
        (sets_a_global, "LEVEL is set where the values of the arrays decide"),
        (sets_an_attribute_in_a_loop, "STATUS"),
        (appends_to_a_closure, "SEEN"),
    ],
)
def test_state_that_only_some_data_change_is_refused(function: Function, rule: str, tmp_path: Path) -> None:
    STATUS.is_large, STATUS.count = False, 0
    with pytest.raises(AnyLayerError, match=rule):
        anylayer.export(function, np.linspace(-1, 2, 7, dtype=np.float32), path=tmp_path / "f.onnx")


class Holder:
    """An object that a function changes where the array decides, and that it reads in the next call."""

    largest = 0
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.slot = 0
        self.cache: dict[Any, Any] = {}
        self.numbers: set[int] = set()
        self.grid: Any = None

    def new_attribute(self) -> int:
        vars(self)["seen"] = 3
        return 0

    def of_slot(self) -> int:
        self.slot = 3
        return 0

    def of_class(self) -> int:
        Holder.largest = 3
        return 0

    def key(self) -> int:
        self.cache["seen"] = 3
        return 0

    def in_set(self) -> int:
        self.numbers.add(3)
        return 0

    def reads(self) -> int:
        slot, largest = self.slot, self.largest
        return slot + largest + getattr(self, "seen", 0) + self.cache.get("seen", 0) + len(self.numbers)


def set_by(method: Callable[[Holder], int]) -> tuple[Function, Holder]:
    """Return a function that calls a method where the sum is large, and the object that it changes."""
    holder = Holder()

    def function(x: Array) -> Any:
        y = x * 2 + method(holder) if x.sum() > 1 else x
        return y + holder.reads()

    return function, holder


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        (Holder.new_attribute, r"holder of function\.seen is set where"),
        (Holder.of_slot, r"holder of function\.slot is set where"),
        (Holder.of_class, r"Holder\.largest is set where"),
        (Holder.key, r"cache\['seen'\] is set where"),
        (Holder.in_set, r"holder of function\.numbers is set where"),
    ],
)
def test_state_of_one_path_is_refused_and_restored(
    method: Callable[[Holder], int], rule: str, tmp_path: Path
) -> None:
    """A file would compute what only the calls after the first on this path compute."""
    function, holder = set_by(method)
    with pytest.raises(AnyLayerError, match=rf"test_output\.py:\d+: .*{rule}"):
        anylayer.export(function, np.zeros(4, np.float32), path=tmp_path / "f.onnx")
    assert holder.reads() == 0
    assert not list(tmp_path.iterdir())


def test_variable_of_a_closure_that_one_path_sets_is_refused(tmp_path: Path) -> None:
    bias = 0

    def function(x: Array) -> Any:
        nonlocal bias
        if x.sum() > 1:
            bias = 3
            return x
        return x + bias

    with pytest.raises(AnyLayerError, match=r"test_output\.py:\d+: bias of function is set where"):
        anylayer.export(function, np.zeros(4, np.float32), path=tmp_path / "f.onnx")
    assert bias == 0


def test_array_that_one_path_makes_once_is_traced(tmp_path: Path) -> None:
    """It makes no difference which call has made it."""
    holder = Holder()

    def function(x: Array) -> Any:
        if x.sum() > 1:
            return x
        if holder.grid is None:
            holder.grid = np.arange(4, dtype=np.float32)
        if (4,) not in holder.cache:
            holder.cache[4,] = [np.float32(2), np.ones(4, np.float32)]
        factor, bias = holder.cache[4,]
        return x * factor + holder.grid + bias

    assert not anylayer.export(function, np.zeros(4, np.float32), path=tmp_path / "f.onnx").notes
    run = in_onnxruntime(tmp_path / "f.onnx")
    for x in np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4):
        np.testing.assert_array_equal(next(iter(run({"x": x}).values())), function(x))


def sets_it_in_each_call(x: Array) -> Any:
    if STATUS.columns == 0:
        STATUS.columns = len(x)
    if x.sum() > 0:
        return x * np.float32(STATUS.columns)
    return x


def test_state_that_each_call_sets_alike_is_traced(tmp_path: Path) -> None:
    STATUS.columns = 0
    x = np.linspace(-1, 2, 7, dtype=np.float32)
    assert not anylayer.export(sets_it_in_each_call, x, path=tmp_path / "f.onnx").notes
    (got,) = in_onnxruntime(tmp_path / "f.onnx")({"x": x}).values()
    np.testing.assert_array_equal(got, x * 7)


def test_the_command_shows_what_a_layer_does_not_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "talk.py").write_text(LAYER)
    (tmp_path / "net.prototxt").write_text(NETWORK)
    files = [str(tmp_path / name) for name in ("net.prototxt", "talk.py", "net.onnx")]
    with pytest.raises(SystemExit) as end:
        main(["convert", files[0], "-l", files[1], "-o", files[2]])
    assert end.value.code == 0
    assert "talk.py:12: what print(...) writes appears while the code is traced" in capsys.readouterr().err
