"""The order of loops: which axes share a loop, and loops that are divided among threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.loops import lower, to_cpp
from anylayer.loops.ir import Loop
from tests.loops.harness import FLAGS, build, call, needs_compiler, traced

pytestmark = needs_compiler
X = np.random.default_rng(0).standard_normal((2, 3, 8, 6)).astype(np.float32)


def blocks(x: Any) -> Any:
    """Return the pixels of blocks of 2 x 2 as channels."""
    return x.reshape(2, 3, 4, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 4, 3)


def test_collapsed_loops_compute_any_part_of_their_iterations(tmp_path: Path) -> None:
    code = to_cpp(lower(traced(blocks, X)), "blocks")
    assert "; ++k, ++begin)" in code.text
    (got,) = call(build([code], tmp_path, parts=True), code, [X], {}) or [np.zeros(0)]
    assert np.array_equal(got, blocks(X))


def test_reductions_collapse_adjacent_axes(tmp_path: Path) -> None:
    def sums(x: Any) -> Any:
        return [x.sum(axis=1), x.max(axis=(2, 3))]

    x = np.random.default_rng(1).standard_normal((2, 3, 8, 7)).astype(np.float32)
    code = to_cpp(lower(traced(sums, x)), "sums")
    assert "< 56;" in code.text and "56, [&]" in code.text
    assert "< 8;" not in code.text and "< 7;" not in code.text
    got = call(build([code], tmp_path, parts=True), code, [x], {}) or []
    for one, want in zip(got, sums(x), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-6)


def test_arrays_of_equal_shape_are_stored_in_one_loop(tmp_path: Path) -> None:
    def pair(x: Any) -> Any:
        return [abs(x) * 2, np.sqrt(abs(x)) + x]

    def dependent(x: Any) -> Any:
        y = np.sqrt(abs(x))
        return [y, y[::-1] + x, x * 3]

    for function, loops in ((pair, 1), (dependent, 2)):
        program = lower(traced(function, X))
        assert len([s for s in program.body if isinstance(s, Loop)]) == loops
        code = to_cpp(program, "stored")
        (tmp_path / str(loops)).mkdir()
        got = call(build([code], tmp_path / str(loops), parts=True), code, [X], {}) or []
        for one, want in zip(got, function(X), strict=True):
            assert np.array_equal(one, want)


def test_bounded_indices_are_computed_without_branches(tmp_path: Path) -> None:
    limits = np.array([np.nan, -np.inf, -2, 0, 3, np.inf], np.float32)

    def bounded(x: Any) -> Any:
        inside = (x >= 0) & (x < 4)
        return [np.minimum(np.maximum(x, np.float32(0)), np.float32(3)), inside.astype(np.float32) * x]

    code = to_cpp(lower(traced(bounded, limits)), "bounded")
    assert "at_most<float>(at_least<float>(" in code.text and "&&" not in code.text
    got = call(build([code], tmp_path), code, [limits], {}) or []
    with np.errstate(invalid="ignore"):
        for one, want in zip(got, bounded(limits), strict=True):
            np.testing.assert_array_equal(one, want)


def test_indices_outside_their_axis_are_reported(tmp_path: Path) -> None:
    def taken(i: Any) -> Any:
        return np.take(np.asarray(np.arange(5, dtype=np.float32), like=i), i)

    code = to_cpp(lower(traced(taken, np.arange(-5, 5))), "taken")
    library = build([code], tmp_path, parts=True)
    (got,) = call(library, code, [np.arange(-5, 5)], {}) or [np.zeros(0)]
    assert got.tolist() == [0, 1, 2, 3, 4] * 2
    for wrong in (5, -6, 2**63 - 1, -(2**63)):
        assert call(library, code, [np.array([0] * 9 + [wrong])], {}) is None


def test_parallel_loops_copy_their_variables(tmp_path: Path) -> None:
    def taken(i: Any) -> Any:
        table = np.asarray(np.arange(5, dtype=np.float32), like=i)
        found = np.take(table, i.reshape(60, 150))
        return [found - found.mean(axis=1, keepdims=True), found + 1]

    numbers = np.arange(9000) % 10 - 5
    code = to_cpp(lower(traced(taken, numbers)), "taken")
    assert "copied([=, &valid](int64_t begin" in code.text and "[&](int64_t begin" not in code.text
    assert "_memory[0];" in code.text
    library = build([code], tmp_path, ["-O3", *FLAGS[1:]], parts=True)
    for one, want in zip(call(library, code, [numbers], {}) or [], taken(numbers), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-6)
    assert call(library, code, [numbers * 2], {}) is None


def test_loops_with_independent_iterations_say_so(tmp_path: Path) -> None:
    def taken(x: Any) -> Any:
        at = np.clip(x[0, 0, :, 0], 0, 5).astype(np.int64)
        return np.take(x, at, axis=3) + x[:, :, :1, :1]

    def changed(x: Any) -> Any:
        return np.cumsum(x, axis=3)

    def placed(x: Any) -> Any:
        return ops.scatter_elements(x, np.clip(x * 3, 0, 5).astype(np.int64), x * 2, axis=3)

    for function, count in ((taken, 3), (changed, 0), (placed, 1)):
        code = to_cpp(lower(traced(function, X)), "stored")
        assert code.text.count("INDEPENDENT\n") == count, code.text
        folder = tmp_path / function.__name__
        folder.mkdir()
        library = build([code], folder, ["-O3", *FLAGS[1:]], parts=True)
        (got,) = call(library, code, [X], {}) or [np.zeros(0)]
        np.testing.assert_allclose(got, function(X), rtol=1e-6)


def test_scatter_of_fewer_rows_writes_all_of_them(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)

    def marked(x: Any) -> Any:
        _, places = ops.top_k(x, 2, axis=1)
        return ops.scatter_elements(
            np.zeros((2, 3, 4), np.float32), places, np.ones((2, 2, 4), np.float32), axis=1
        )

    code = to_cpp(lower(traced(marked, x)), "marked")
    library = build([code], tmp_path, ["-O3", *FLAGS[1:]], parts=True)
    (marks,) = call(library, code, [x], {}) or [np.zeros(0)]
    np.testing.assert_array_equal(marks, x > x.min(axis=1, keepdims=True))
