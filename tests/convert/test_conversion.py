"""Conversion with writers that the tests define: files are verified against their source, then moved into
place."""

from __future__ import annotations

import importlib
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anylayer.api import Net
from anylayer.convert.checks import compare
from anylayer.engines import load_engine
from anylayer.engines import onnxruntime as onnxruntime_engine
from anylayer.errors import ConversionError, EngineError, InputError, LayerError
from anylayer.layer import Layer
from anylayer.layer.registry import Definition
from anylayer.network import Network, Node, TensorType
from anylayer.source import Source, Written
from anylayer.writers import load_writer, writers
from anylayer.writers.onnx import write as write_onnx
from tests.engine_names import GENERAL


class Twice(Layer):
    """Two times x."""

    def forward(self, x: Any) -> Any:
        return x * np.float32(2)


class Plus(Layer):
    """x + y."""

    def forward(self, x: Any, y: Any) -> Any:
        return x + y


def net() -> Net:
    kinds = {"x": TensorType((1, 4, 5, 3)), "k": TensorType((3,))}
    nodes = [
        Node("a", "Twice", ["x"], ["a"], place="n: layer 'a' (Twice)"),
        Node("b", "Plus", ["a", "k"], ["b"], place="n: layer 'b' (Plus)"),
    ]
    network = Network("n", "caffe", kinds, nodes, {"b": "b"}, source="n")
    return Net(network, {"Twice": Definition("Twice", Twice, "here"), "Plus": Definition("Plus", Plus, "here")})


def writer(write: Any, **more: Any) -> Any:
    """Return a writer's module."""
    return SimpleNamespace(
        WHAT="a file of the tests (.test)",
        SUFFIXES=(".test",),
        OPTIONS=frozenset(),
        write=write,
        **{"RUNS": "onnxruntime", **more},
    )


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    def take(module: Any) -> None:
        monkeypatch.setattr("anylayer.writers.load_writer", lambda name: module)

    return take


# ------------------------------------------------------------------ comparison


def test_compare_uses_the_largest_value_as_scale() -> None:
    want = np.array([1, -4, 2], np.float32)
    check = compare("y", want, want + np.float32(1e-5), 1e-5)
    assert (check.ok, check.scale) == (True, 4.0) and 9e-6 < check.error < 1.1e-5
    assert str(check) == "largest difference 1e-05, largest value 4"
    assert not compare("y", want, want + np.float32(1e-3), 1e-5).ok
    other = compare("y", want, want[:2], 1e-5)
    assert (other.ok, str(other)) == (False, "shape (2,), the source's is (3,)")


def test_compare_requires_equal_values_that_are_not_finite() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert compare("y", odd, odd.copy(), 1e-5).ok
    for i in range(3):
        other = odd.copy()
        other[i] = 1
        assert not compare("y", odd, other, 1e-5).ok


def test_compare_integers_booleans_and_empty_arrays() -> None:
    assert compare("y", np.array([1, 7]), np.array([1, 7]), 1e-5).ok
    assert not compare("y", np.array([True, False]), np.array([True, True]), 1e-5).ok
    assert compare("y", np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), 1e-5).ok


# --------------------------------------------------------------------- writers


def test_file_with_other_names_and_permuted_axes_is_verified(tmp_path: Path, use: Any) -> None:
    def write(source: Source, path: Path) -> Written:
        path.write_text("file")
        return Written([path], ["turned"], {"x": "data", "b": "out"}, {"x": (0, 3, 1, 2), "b": (0, 3, 1, 2)})

    def reopened(written: Written) -> Any:
        return lambda feed: {"out": feed["data"] * 2 + feed["k"][:, None, None]}

    subject = net()
    subject._reopen = reopened
    use(writer(write, RUNS="numpy"))
    done = subject.write(tmp_path / "n.test", "test")
    assert done.checks[0].ok and done.notes == ["turned"] and done.files == [tmp_path / "n.test"]


def test_missing_output_is_refused(tmp_path: Path, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime_engine, "open_file", lambda path: lambda feed: {"c": feed["x"]})
    use(writer(lambda source, path: Written([path])))
    with pytest.raises(
        ConversionError, match="output 'b' differs from the source: the file has no such output; it has c"
    ):
        net().write(tmp_path / "n.test", "test")


def test_files_move_into_place_together_or_not_at_all(tmp_path: Path, use: Any) -> None:
    def write(source: Source, path: Path) -> Written:
        assert list(path.parent.iterdir()) == [] and path.parent.parent == tmp_path
        (path.parent / "n.weights").write_text("weights")
        path.write_text("file")
        (path.parent / "scrap").write_text("not a file of it")
        return Written([path.parent / "n.weights", path], unrun="nothing runs it")

    use(writer(write))
    done = net().write(tmp_path / "n.test", "test")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.test", "n.weights"]
    assert (done.checks, done.unchecked) == ([], "nothing runs it")

    def fail(source: Source, path: Path) -> Written:
        path.write_text("half")
        raise LayerError("it cannot be said")

    use(writer(fail))
    with pytest.raises(LayerError, match="it cannot be said"):
        net().write(tmp_path / "n.test", "test")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.test", "n.weights"]
    assert (tmp_path / "n.test").read_text() == "file"


def test_comparison_without_enough_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any) -> Any:
        raise MemoryError("1.54 GiB")

    monkeypatch.setattr("anylayer.convert.checks.largest_error", exhausted)
    text = r"n\.onnx: there is not enough memory to write and compare it: 1\.54 GiB"
    with pytest.raises(ConversionError, match=text):
        net().write(tmp_path / "n.onnx")
    assert list(tmp_path.iterdir()) == []


def test_source_is_not_overwritten(tmp_path: Path, use: Any) -> None:
    def write(source: Source, path: Path) -> Written:
        for name in ("net.weights", path.name):
            (path.parent / name).write_text("new")
        return Written([path.parent / "net.weights", path], unrun="nothing runs it")

    use(writer(write))
    subject = net()
    subject.network.source, subject.network.weights = str(tmp_path / "net.test"), str(tmp_path / "net.weights")
    for name in ("net.test", "net.weights"):
        (tmp_path / name).write_text("old")
    for name in ("net.test", "other.test"):
        with pytest.raises(InputError, match=r"net\.\w+ is a file of the source and would be lost; give another"):
            subject.write(tmp_path / name, "test")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"net.test": "old", "net.weights": "old"}


def test_refused_copy_leaves_the_differing_node_unknown(tmp_path: Path, use: Any) -> None:
    def write(source: Source, path: Path) -> Written:
        if len(source.outputs) > 1:
            raise LayerError("a file has one output")
        source.graph.ops[-1].op = "Mul"
        return write_onnx(source, path)

    use(writer(write))
    text = "n.test: output 'b' differs .* The node that differs cannot be found: a file has one output"
    with pytest.raises(ConversionError, match=text):
        net().write(tmp_path / "n.test", "test")


def test_difference_without_a_differing_node_is_refused(tmp_path: Path, use: Any) -> None:
    def write(source: Source, path: Path) -> Written:
        if len(source.outputs) == 1:
            source.graph.ops[-1].op = "Mul"
        return write_onnx(source, path)

    use(writer(write))
    with pytest.raises(ConversionError, match="No node differs when the output of every node is an output"):
        net().write(tmp_path / "n.test", "test")


def test_writer_whose_package_is_missing_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, *rest: Any) -> Any:
        if name == "anylayer.writers.onnx":
            raise ModuleNotFoundError("No module named 'onnx'", name="onnx")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(InputError, match="to write 'onnx': pip install onnx"):
        load_writer("onnx")
    assert "onnx" not in writers() and "openvino" in writers()


class Flat(Layer):
    """Values that are almost the same for every x."""

    def forward(self, x: Any) -> Any:
        return x * np.float32(1e-3) + np.float32(7)


def test_output_with_almost_equal_values_gets_a_note(tmp_path: Path) -> None:
    kinds: dict[str, TensorType | None] = {"x": TensorType((1, 40))}
    network = Network("n", "caffe", kinds, [Node("f", "Flat", ["x"], ["f"])], {"f": "f"}, source="n")
    done = Net(network, {"Flat": Definition("Flat", Flat, "here")}).write(tmp_path / "n.onnx")
    (note,) = done.notes
    start = "the values of output 'f' span only 0.00"
    assert note.startswith(start) and ", and the largest is 7, which hides mistakes: " in note


def test_notes_of_the_reader_are_passed_on(tmp_path: Path) -> None:
    """A loss that is left out is not in the file, so the conversion says so."""
    kinds: dict[str, TensorType | None] = {"x": TensorType((1, 4))}
    network = Network("n", "caffe", kinds, [Node("f", "Flat", ["x"], ["f"])], {"f": "f"}, notes=["loss left out"])
    done = Net(network, {"Flat": Definition("Flat", Flat, "here")}).write(tmp_path / "n.onnx")
    assert done.notes[0] == "loss left out"


def test_deep_networks_have_a_larger_tolerance(tmp_path: Path) -> None:
    kinds: dict[str, TensorType | None] = {"x": TensorType((1, 4, 1, 1))}
    params = {"convolution_param": {"num_output": 4, "kernel_size": 1, "bias_term": 0}}
    for count, tolerance in ((20, 1e-5), (21, 1e-4)):
        names = ["x", *(f"c{i}" for i in range(count))]
        nodes = [
            Node(b, "Convolution", [a], [b], params, [np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1)])
            for a, b in pairwise(names)
        ]
        network = Network("n", "caffe", kinds, nodes, {names[-1]: names[-1]}, source="n")
        assert Net(network, {}).write(tmp_path / "n.onnx").checks[0].tolerance == tolerance


@pytest.mark.parametrize("engine", GENERAL)
def test_engine_refuses_to_open_a_broken_file(engine: str, tmp_path: Path) -> None:
    (tmp_path / "n.onnx").write_bytes(b"nothing")
    with pytest.raises(EngineError, match=f"n.onnx: engine '{engine}' refuses the file: "):
        load_engine(engine).open_file(tmp_path / "n.onnx")


@pytest.mark.parametrize("engine", GENERAL)
def test_engine_opens_a_file_as_a_function(engine: str, tmp_path: Path) -> None:
    net().write(tmp_path / "n.onnx")
    run = load_engine(engine).open_file(tmp_path / "n.onnx")
    x, k = np.ones((1, 4, 5, 3), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(run({"x": x, "k": k})["b"], 2 * x + k)
    with pytest.raises(EngineError, match=f"n.onnx: engine '{engine}' failed: "):
        run({"x": x[:, :1], "k": k})


def test_refusal_by_an_engine_while_writing_names_the_file(tmp_path: Path, use: Any) -> None:
    def write(source: Source, path: Path) -> Written:
        raise EngineError("OpenVINO refuses the network: no")

    use(writer(write))
    subject = net()
    with pytest.raises(EngineError) as found:
        subject.write(tmp_path / "n.test", "test")
    assert str(found.value) == f"{subject.network.source}: OpenVINO refuses the network: no"
