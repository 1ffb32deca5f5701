"""Output arrays are reused only when nothing refers to them."""

from __future__ import annotations

import numpy as np
import pytest
from onnxruntime import IOBinding

from anylayer import ops
from anylayer.engines import Program, load_engine
from anylayer.engines._recycling import Recycled
from anylayer.network import TensorType
from anylayer.tracing import trace

F4 = np.dtype(np.float32)
SHAPE = (64, 1024)


def test_dropped_array_is_reused() -> None:
    pool = Recycled((4,), F4)
    first = pool.take()
    place = first.array.ctypes.data
    again = pool.take()
    assert again is first and again.array.ctypes.data == place


def test_referenced_array_is_not_reused() -> None:
    pool = Recycled((4,), F4)
    held = []
    for hold in (lambda a: a, lambda a: a[1:], lambda a: a.reshape(2, 2).T, memoryview, lambda a: {"y": [a]}):
        array = pool.take().array
        held.append(hold(array))
        place = array.ctypes.data
        del array
        assert pool.take().array.ctypes.data != place
    assert len(held) == 5


def test_at_most_three_arrays_are_kept() -> None:
    pool = Recycled((4,), F4)
    arrays, kept = [], []
    for _ in range(5):
        holder = pool.take()
        arrays.append(holder.array)
        kept.append(holder.kept)
    assert kept == [True, True, True, False, False]
    assert len({a.ctypes.data for a in arrays}) == 5
    assert not Recycled((1 << 25,), F4).take().kept


def test_tensor_may_refer_to_its_array() -> None:
    pool = Recycled((4,), F4, lambda array: [array])
    first = pool.take()
    assert pool.take() is first
    array = first.array
    assert pool.take() is not first and first.tensor[0] is array


def large_relu(engine: str) -> Program:
    graph = trace(lambda xs: [ops.relu(xs[0])], [TensorType.of(SHAPE)])
    return load_engine(engine).compile(graph, 2)


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_kept_results_do_not_change(engine: str) -> None:
    program = large_relu(engine)
    kept = [program([np.full(SHAPE, i, np.float32)])[0] for i in range(6)]
    for i in range(20):  # dropped, recycled, and now and then written elsewhere
        buffer = np.empty(SHAPE, np.float32) if i % 3 == 0 else None
        got = program([np.full(SHAPE, 100 + i, np.float32)], [buffer])[0]
        assert (got == 100 + i).all() and (buffer is None or got is buffer)
        del got
    assert [float(a.min()) for a in kept] == [float(a.max()) for a in kept] == [0, 1, 2, 3, 4, 5]


def test_onnxruntime_binds_equal_arrays_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = []
    for name in ("bind_cpu_input", "bind_ortvalue_output"):
        bind = getattr(IOBinding, name)
        monkeypatch.setattr(IOBinding, name, lambda *args, name=name, bind=bind: (bound.append(name), bind(*args)))
    program, x = large_relu("onnxruntime"), np.full(SHAPE, -1, np.float32)
    for _ in range(5):
        assert not program([x])[0].any()
    assert sorted(bound) == ["bind_cpu_input", "bind_ortvalue_output"]
    x[:] = 3
    held = program([x])[0]
    assert (program([x + 1])[0] == 4).all() and (held == 3).all()
    assert len(bound) == 4


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_changed_arrays_of_any_order_are_read_again(engine: str) -> None:
    program = large_relu(engine)
    for x in (np.ones(SHAPE, np.float32), np.ones(SHAPE, np.float32, order="F"), np.ones((64, 2048), np.float32)):
        x = x[:, :: x.shape[1] // SHAPE[1]]
        assert (program([x])[0] == 1).all()
        x[:] = 2
        assert (program([x])[0] == 2).all()
