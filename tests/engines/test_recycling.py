"""Output arrays are reused only when nothing refers to them."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.engines import load_engine
from anylayer.engines._recycling import Recycled
from anylayer.network import TensorType
from anylayer.tracing import trace

F4 = np.dtype(np.float32)


def test_dropped_array_is_reused() -> None:
    pool = Recycled((4,), F4)
    first, slot = pool.take()
    place = first.ctypes.data
    del first
    again, same = pool.take()
    assert same is slot and again.ctypes.data == place


def test_referenced_array_is_not_reused() -> None:
    pool = Recycled((4,), F4)
    held = []
    for hold in (lambda a: a, lambda a: a[1:], lambda a: a.reshape(2, 2).T, memoryview, lambda a: {"y": [a]}):
        array, _ = pool.take()
        held.append(hold(array))
        place = array.ctypes.data
        del array
        assert pool.take()[0].ctypes.data != place
    assert len(held) == 5


def test_at_most_three_arrays_are_kept() -> None:
    pool = Recycled((4,), F4)
    arrays = [pool.take() for _ in range(5)]
    assert [slot is None for _, slot in arrays] == [False, False, False, True, True]
    assert len({a.ctypes.data for a, _ in arrays}) == 5
    assert Recycled((1 << 25,), F4).take()[1] is None


def test_kept_results_do_not_change() -> None:
    shape = (64, 1024)
    graph = trace(lambda xs: [ops.relu(xs[0])], [TensorType.of(shape)])
    program = load_engine("openvino").compile(graph, 2)
    kept = [program([np.full(shape, i, np.float32)])[0] for i in range(6)]
    for i in range(20):  # dropped, recycled, and now and then written elsewhere
        buffer = np.empty(shape, np.float32) if i % 3 == 0 else None
        got = program([np.full(shape, 100 + i, np.float32)], [buffer])[0]
        assert (got == 100 + i).all() and (buffer is None or got is buffer)
        del got
    assert [float(a.min()) for a in kept] == [float(a.max()) for a in kept] == [0, 1, 2, 3, 4, 5]
