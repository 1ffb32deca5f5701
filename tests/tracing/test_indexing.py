"""Random keys: reading, writing and broadcasting match NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from anylayer.tracing import trace

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
_quiet = settings(max_examples=60, deadline=None)


def _slices(size: int) -> st.SearchStrategy[Any]:
    bound = st.none() | st.integers(-size - 1, size + 1)
    return st.builds(slice, bound, bound, st.none() | st.integers(-3, 3).filter(bool))


@st.composite
def keys(draw: Any, shape: tuple[int, ...], arrays: bool = True) -> Any:
    """Draw a key that NumPy accepts: integers, slices, None, Ellipsis, index arrays that broadcast, masks."""
    common = draw(st.lists(st.integers(1, 3), min_size=0, max_size=2).map(tuple))
    pieces: list[Any] = []
    axis = 0
    while axis < len(shape):
        size = shape[axis]
        kind = draw(
            st.sampled_from(
                ["slice", "int", "none", "all", "stop", *(["array", "list", "mask"] if arrays else [])]
            )
        )
        if kind == "stop":
            break
        if kind == "none":
            pieces.append(None)
            if len(pieces) > 5:
                break
            continue
        if kind == "slice":
            pieces.append(draw(_slices(size)))
        elif kind == "int":
            pieces.append(draw(st.integers(-size, size - 1)))
        elif kind == "all":
            pieces.append(slice(None))
        elif kind == "mask" and not any(isinstance(p, np.ndarray) for p in pieces):
            pieces.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))))
            common = (int(pieces[-1].sum()),) if pieces[-1].sum() != 1 else ()
        else:
            own = tuple(draw(st.sampled_from([1, d])) for d in common[draw(st.integers(0, len(common))) :])
            count = int(np.prod(own))
            values = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            array = np.array(values, np.int64).reshape(own)
            pieces.append(array.tolist() if kind == "list" and array.ndim else array)
        axis += 1
    if draw(st.booleans()) and not any(p is Ellipsis for p in pieces):
        pieces.insert(draw(st.integers(0, len(pieces))), Ellipsis)
        if pieces[-1] is Ellipsis or axis == len(shape):
            return tuple(pieces)
        return tuple(p for p in pieces if p is not Ellipsis)
    return tuple(pieces)


def _number(*shape: int) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _run(function: Any, *arrays: list[Array]) -> Any:
    graph = trace(lambda a: [function(*a)], [TensorType.of(a.shape, a.dtype) for a in arrays])
    (got,) = run_graph(graph, list(arrays), "onnxruntime")
    assert graph.outputs[0].shape == got.shape
    return got


@st.composite
def readings(draw: Any, arrays: bool = True) -> Any:
    shape = draw(SHAPES)
    return shape, draw(keys(shape, arrays))


def _valid(x: Array, key: Any) -> bool:
    try:
        x[key]
    except IndexError:
        return False
    return True


@_quiet
@given(readings())
def test_reading_matches_numpy(case: Any) -> None:
    shape, key = case
    x = _number(*shape)
    if not _valid(x, key):
        try:
            trace(lambda a: [a[0][key]], [TensorType.of(shape)])
        except IndexError:
            return
        raise AssertionError(f"NumPy refuses {key}")
    np.testing.assert_array_equal(_run(lambda a: a[key], x), x[key])


@_quiet
@given(readings(), st.randoms(use_true_random=False))
def test_writing_matches_numpy(case: Any, random: Any) -> None:
    shape, key = case
    x = _number(*shape)
    if not _valid(x, key):
        return
    selected = np.asarray(x[key]).shape
    value_shape = tuple(1 if random.random() < 0.2 else d for d in selected[random.randint(0, len(selected)) :])
    v = np.asarray(-_number(*value_shape))

    def write(a: Array, b: Array) -> Array:
        a = a.copy()
        a[key] = b
        return a

    np.testing.assert_array_equal(_run(write, x, v), write(x, v))

    def into_zeros(a: Array, b: Array) -> Array:
        out = np.zeros_like(a)
        out[key] = b
        return out

    np.testing.assert_array_equal(_run(into_zeros, x, v), into_zeros(x, v))


@_quiet
@given(readings(arrays=False), st.integers(0, 3))
def test_views_share_writes_with_their_base(case: Any, which: int) -> None:
    shape, key = case
    x = _number(*shape)

    def change(a: Array) -> Array:
        o = a.copy()
        base = [o, o.T, o.reshape(-1).reshape(shape), o[..., ::-1]][which]
        before = base[key] if _valid(np.empty(base.shape), key) else base
        if before.shape:
            before *= np.float32(2)
        o += np.float32(1)
        if before.shape:
            before[...] = -before
        return o + before.sum()

    np.testing.assert_allclose(_run(change, x), change(x), rtol=1e-6)


@_quiet
@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_reading_with_traced_indices_matches_numpy(sizes: list[int], data: Any) -> None:
    shape = (3, 2, 4)
    x = _number(*shape)
    axes = data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=3, unique=True))
    index_shape = tuple(sizes[:2])
    arrays = {a: data.draw(st.integers(0, 10**6)) for a in axes}
    given_arrays = [
        np.random.default_rng(seed).integers(-shape[a], shape[a], index_shape) for a, seed in arrays.items()
    ]
    pieces: list[Any] = [data.draw(st.sampled_from([slice(None), 0, slice(None, None, -1)])) for _ in shape]

    def read(a: Array, *indices: Any) -> Any:
        key = list(pieces)
        for axis, i in zip(axes, indices):
            key[axis] = i
        return a[tuple(key)]

    np.testing.assert_array_equal(_run(read, x, *given_arrays), read(x, *given_arrays))


@_quiet
@given(st.data())
def test_broadcasting_matches_numpy(data: Any) -> None:
    full = data.draw(SHAPES)

    def part() -> tuple[int, ...]:
        cut = data.draw(st.integers(0, len(full)))
        return tuple(d if data.draw(st.booleans()) else 1 for d in full[cut:])

    a, b, c = (_number(*part()) for _ in range(3))

    def both(x: Array, y: Array, z: Array) -> Array:
        return np.where(x > y, x * z, y - z)

    np.testing.assert_array_equal(_run(both, a, b, c), both(a, b, c))


@_quiet
@given(SHAPES, st.data())
def test_transposes_and_reshapes_match_numpy(shape: tuple[int, ...], data: Any) -> None:
    x = _number(*shape)
    order = data.draw(st.permutations(range(len(shape))))
    axis = data.draw(st.integers(0, len(shape)))

    def turn(a: Array) -> Array:
        return np.expand_dims(a.transpose(order).reshape(-1, shape[0]), min(axis, 2))[..., ::-1] * 2

    np.testing.assert_array_equal(_run(turn, x), turn(x))
