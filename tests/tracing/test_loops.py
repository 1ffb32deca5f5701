"""Loops whose number of steps depends on data, compared with NumPy: no step, one step, many, equal scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import EngineError, LayerError, TraceError
from anylayer.network import Array, TensorType
from tests.engine_names import ALL, GENERAL, program_of

from .test_selections import in_openvino, several, traced

N = 24
Function = Callable[[Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of detections (N, 5), boxes and scores, to the cases."""
    CASES.append(function)
    return function


def overlaps(a: Array, b: Array, more: float) -> Array:
    """Return the intersection over union of a box (4,) and boxes (M, 4)."""
    low, high = np.maximum(a[:2], b[:, :2]), np.minimum(a[2:], b[:, 2:])
    size = np.maximum(0.0, high - low + more)
    common = size[:, 0] * size[:, 1]
    area = (a[2] - a[0] + more) * (a[3] - a[1] + more)
    areas = (b[:, 2] - b[:, 0] + more) * (b[:, 3] - b[:, 1] + more)
    return common / (area + areas - common)


@case
def columns_and_order(dets: Array) -> Any:
    x1, y1, x2, y2, scores = dets.T
    areas = (x2 - x1 + 1) * (y2 - y1 + 1)
    order = scores.argsort(kind="stable")[::-1]
    keep = []
    while order.size > 0:
        i = order[0]
        keep.append(i)
        rest = order[1:]
        w = np.maximum(0.0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]) + 1)
        h = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]) + 1)
        common = w * h
        inds = np.where(common / (areas[i] + areas[rest] - common) <= 0.3)[0]
        order = order[inds + 1]
    return dets[keep], np.array(keep)


@case
def function_of_boxes(dets: Array) -> Any:
    order = np.argsort(-dets[:, 4], kind="stable")
    keep = []
    while len(order) > 0:
        best, order = order[0], order[1:]
        keep.append(best)
        order = order[overlaps(dets[best, :4], dets[order, :4], 0.0) < 0.5]
    return dets[keep[:5]], np.float32(len(keep))


@case
def boxes_that_shrink(dets: Array) -> Any:
    dets = dets[dets[:, 4].argsort(kind="stable")[::-1]]
    found = []
    while dets.shape[0]:
        found.append(dets[0])
        shared = overlaps(dets[0, :4], dets[1:, :4], 0.0)
        dets = dets[1:][shared <= 0.4]
    return np.stack(found)


@case
def last_first(dets: Array) -> Any:
    idxs = np.argsort(dets[:, 3], kind="stable")
    pick = []
    while len(idxs) > 0:
        last = len(idxs) - 1
        i = idxs[last]
        pick.append(i)
        shared = overlaps(dets[i, :4], dets[idxs[:last], :4], 1.0)
        idxs = idxs[:last][shared <= 0.3]
    return dets[pick]


@case
def of_a_selection(dets: Array) -> Any:
    dets = dets[dets[:, 4] > 0.5]
    order = dets[:, 4].argsort(kind="stable")[::-1]
    keep = []
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][overlaps(dets[order[0], :4], dets[order[1:], :4], 1.0) <= 0.3]
    return dets[np.array(keep, np.int64)]


@case
def forever_until_nothing_is_left(dets: Array) -> Any:
    order = dets[:, 4].argsort(kind="stable")[::-1]
    keep = []
    while True:
        if order.size == 0:
            break
        keep.append(order[0])
        order = order[1:][overlaps(dets[order[0], :4], dets[order[1:], :4], 0.0) <= 0.3]
    return dets[keep]


def arrays() -> list[Array]:
    """Return detections: random ones, equal boxes, boxes apart, integers with equal scores, without area, one."""
    found = []
    for seed in range(2):
        random = np.random.default_rng(seed)
        middle, size = random.uniform(0, 100, (N, 2)), random.uniform(5, 60, (N, 2))
        found.append(np.hstack([middle - size / 2, middle + size / 2, random.uniform(0, 1, (N, 1))]))
    same, apart, whole, empty, low = (found[0].copy() for _ in range(5))
    same[:, :4] = same[0, :4]
    apart[:, :4] += np.arange(N)[:, None] * 500
    whole[:, :4] = np.floor(whole[:, :4] / 8) * 8
    whole[:, 4] = np.round(np.arange(N) % 5 / 5, 1)
    empty[::2, 2:4] = empty[::2, :2]
    low[:, 4] = 0.25
    return [a.astype(np.float32) for a in (*found, same, apart, whole, empty, low)]


def check(function: Function, run: Callable[[Array], Any]) -> None:
    """Compare a traced function with NumPy. Of equal scores the order of NumPy's argsort is not stable."""
    for dets in arrays():
        with np.errstate(all="ignore"):
            wanted = several(function(dets.copy()))
        for got, want in zip(run(dets), wanted, strict=True):
            assert got.shape == np.shape(want)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_loops_equal_numpy(function: Function, engine: str) -> None:
    graph = traced(function, [TensorType.of((N, 5), np.float32)])
    assert any(o.op == "Loop" for o in graph.ops)
    run = program_of(graph, engine)
    check(function, lambda dets: run([dets]))


def in_onnxruntime(file: Path) -> Callable[[dict[str, Array]], dict[str, Array]]:
    """Return a function that runs a file in ONNX Runtime itself."""
    session = pytest.importorskip("onnxruntime").InferenceSession(file)
    return lambda arrays: {str(i): y for i, y in enumerate(session.run(None, arrays))}


@pytest.mark.one_per("function")
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("function", [columns_and_order, of_a_selection])
def test_a_file_with_a_loop_over_any_number_of_boxes(function: Function, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"boxes.{suffix}"
    anylayer.export(function, arrays()[0], path=file, shapes={"dets": ("N", 5)})
    run = in_onnxruntime(file) if suffix == "onnx" else in_openvino(file)
    for n in (N, 9, 2):
        check(lambda d, n=n: function(d[:n]), lambda d, n=n: run({"dets": d[:n]}).values())


def scores_below(order: Any, dets: Array, keep: list[Any]) -> Any:
    keep.append(order[0])
    return order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]


def counts_steps(dets: Array) -> Any:
    order, steps = dets[:, 4].argsort(), 0
    while order.size > 0:
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
        steps += 1
    return dets * steps


def counts_steps_elsewhere(dets: Array) -> Any:
    order, steps = dets[:, 4].argsort(), {"n": 0}
    while order.size > 0:
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
        steps["n"] += 1
    return dets * steps["n"]


def stops_at_a_number(dets: Array) -> Any:
    order, keep = dets[:, 4].argsort(), []
    while order.size > 0 and len(keep) < 3:
        order = scores_below(order, dets, keep)
    return dets[keep]


def keeps_an_array_elsewhere(dets: Array) -> Any:
    order, kept = dets[:, 4].argsort(), {"keep": []}
    while order.size > 0:
        kept["keep"].append(order[0])
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
    return np.stack(kept["keep"])


def compares_neighbours(dets: Array) -> Any:
    order, keep = dets[:, 4].argsort(), []
    while order.size > 0:
        keep.append(order[0])
        rest = order[1:]
        order = rest[np.cumsum(dets[rest, 4]) > 1]
    return dets[keep]


def never_ends(dets: Array) -> Any:
    order, keep = dets[:, 4].argsort(), []
    while order.size > 0:
        keep.append(order[0])
        order = order[dets[order, 4] > 0.1]
    return dets[keep]


def reads_a_list_by_another_name(dets: Array) -> Any:
    order, keep = dets[:, 4].argsort(), []
    also = [keep]
    while order.size > 0:
        order = scores_below(order, dets, keep)
    return dets[np.stack(also[0])]


class Steps:
    """A counter in an attribute, without methods."""

    n = 0


LIMITS: list[Callable[[list[Any]], Callable[[], bool]]] = []
"""Functions that return, for a list, one that tells whether a loop that fills the list is to end."""


def limit(function: Callable[[list[Any]], Callable[[], bool]]) -> Any:
    LIMITS.append(function)
    return function


@limit
def counted_in_a_dict(keep: list[Any]) -> Callable[[], bool]:
    stats = {"n": 0}

    def ends() -> bool:
        stats["n"] += 1
        return stats["n"] > 5

    return ends


@limit
def counted_in_an_attribute(keep: list[Any]) -> Callable[[], bool]:
    steps = Steps()

    def ends() -> bool:
        steps.n += 1
        return steps.n > 5

    return ends


@limit
def counted_in_a_number_of_numpy(keep: list[Any]) -> Callable[[], bool]:
    n = np.int64(0)

    def ends() -> bool:
        nonlocal n
        n = n + 1
        return bool(n > 5)

    return ends


@limit
def counted_by_an_iterator(keep: list[Any]) -> Callable[[], bool]:
    numbers = iter(range(5))
    return lambda: next(numbers, None) is None


@limit
def counted_by_zip(keep: list[Any]) -> Callable[[], bool]:
    pairs = zip(range(5), range(5))
    return lambda: next(pairs, None) is None


@limit
def counted_in_a_list(keep: list[Any]) -> Callable[[], bool]:
    left = [1, 2, 3, 4, 5]
    return lambda: not (left and left.pop())


@limit
def counted_in_a_class(keep: list[Any]) -> Callable[[], bool]:
    class Own(Steps):
        pass

    return lambda: setattr(Own, "n", Own.n + 1) or Own.n > 5


@limit
def method_of_the_list(keep: list[Any]) -> Callable[[], bool]:
    length = keep.__len__
    return lambda: length() == 5


@limit
def slice_of_the_list(keep: list[Any]) -> Callable[[], bool]:
    return lambda: bool(keep[4:])


@limit
def list_in_a_dict(keep: list[Any]) -> Callable[[], bool]:
    found = {"keep": keep}
    return lambda: found["keep"].__len__() == 5


@pytest.mark.parametrize("limit", LIMITS, ids=lambda f: f.__name__)
def test_a_limit_that_python_counts_is_refused(limit: Any) -> None:
    def function(dets: Array) -> Any:
        keep: list[Any] = []
        ends = limit(keep)
        order = dets[:, 4].argsort(kind="stable")[::-1]
        while order.size > 0:
            if ends():
                break
            keep.append(order[0])
            order = order[1:][overlaps(dets[order[0], :4], dets[order[1:], :4], 0.0) <= 0.3]
        return dets[np.stack(keep)]

    with pytest.raises(TraceError, match=r"changes in each iteration|has other names"):
        traced(function, [TensorType.of((N, 5), np.float32)])


def counts_in_the_frame(dets: Array) -> Any:
    order, keep, stats = dets[:, 4].argsort(), [], {"kept": 0}
    while order.size > 0 and stats["kept"] < 100:
        keep.append(order[0])
        stats["kept"] += 1
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
    return dets[keep]


def counts_in_a_number_of_numpy(dets: Array) -> Any:
    order, keep, n = dets[:, 4].argsort(), [], np.int64(0)
    while order.size > 0 and n < 100:
        keep.append(order[0])
        n = n + 1
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
    return dets[keep]


def reads_a_slice_of_the_list(dets: Array) -> Any:
    order, keep = dets[:, 4].argsort(), []
    while order.size > 0:
        if keep[40:]:
            break
        keep.append(order[0])
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
    return dets[keep]


def calls_a_method_of_the_list(dets: Array) -> Any:
    order, keep = dets[:, 4].argsort(), []
    while order.size > 0 and keep.__len__() != 40:
        keep.append(order[0])
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
    return dets[keep]


def names_the_list_twice(dets: Array) -> Any:
    order, keep = dets[:, 4].argsort(), []
    also = keep
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][dets[order[1:], 4] > dets[order[0], 4] + 0.1]
    return dets * also.__len__()


def sets_a_flag(boxes: Array) -> Any:
    found, order = False, np.flatnonzero(boxes[:, 4] > 0.1)
    while order.size > 0:
        found, order = True, order[1:][boxes[order[1:], 0] > boxes[order[0], 2]]
    return boxes[:, 4] * np.float32(found)


def keeps_an_array_from_before(boxes: Array) -> Any:
    twice, last, order = boxes[:, 4] * 2, boxes[:, 4] * 0, np.flatnonzero(boxes[:, 4] > 0.1)
    while order.size > 0:
        last, order = twice, order[1:][boxes[order[1:], 0] > boxes[order[0], 2]]
    return last


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (counts_in_the_frame, r"'stats\['kept'\]' changes in each iteration"),
        (counts_in_a_number_of_numpy, "'n' changes in each iteration"),
        (reads_a_slice_of_the_list, "list 'keep' is used in another way"),
        (calls_a_method_of_the_list, "list 'keep' is used in another way"),
        (names_the_list_twice, "list 'keep' has other names"),
        (counts_steps, "'steps' changes in each iteration"),
        (counts_steps_elsewhere, r"'steps\['n'\]' changes in each iteration"),
        (stops_at_a_number, "list 'keep' is used in another way than by keep.append"),
        (keeps_an_array_elsewhere, r"'len\(kept\['keep'\]\)' changes in each iteration"),
        (compares_neighbours, "computes CumSum of the elements that are left"),
        (sets_a_flag, "'found' changes in each iteration"),
        (keeps_an_array_from_before, "'last' gets a value from before the loop"),
        (never_ends, "does not take its element out of those that are left"),
        (reads_a_list_by_another_name, "list 'keep' is used in another way|has other names"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_loops_that_do_something_else_are_refused(function: Function, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        traced(function, [TensorType.of((N, 5), np.float32)])


def classes_with_limits(dets: Array, classes: Array, table: Array) -> Any:
    order = dets[:, 4].argsort(kind="stable")[::-1]
    keep = []
    while order.size > 0:
        i = order[0]
        keep.append(i)
        order = order[1:][dets[order[1:], 4] < table[classes[i]]]
    return dets[keep]


@pytest.mark.parametrize("engine", GENERAL)
def test_an_index_out_of_range_in_any_step_is_an_error(engine: str) -> None:
    """OpenVINO returns zeros for it, so that the body needs a check."""
    dets, table = arrays()[0][:6], np.full(4, 2, np.float32)
    types = [TensorType.of(dets.shape, np.float32), TensorType.of((6,), np.int64), TensorType.of((4,), np.float32)]
    graph = traced(classes_with_limits, types)
    run = program_of(graph, engine)
    for step, i in enumerate(dets[:, 4].argsort()[::-1]):
        classes = np.zeros(6, np.int64)
        np.testing.assert_array_equal(run([dets, classes, table])[0], dets[dets[:, 4].argsort()[::-1]])
        classes[i] = -5 if step % 2 else 4
        with pytest.raises(EngineError, match=r"out of (data )?(range|bounds)"):
            run([dets, classes, table])


@pytest.mark.parametrize(
    "is_doubled",
    [lambda m: len(m) == 0, lambda m: m.size > 0, lambda m: min(len(m), 1) > 0, lambda m: bool(len(m))],
)
def test_a_size_inside_of_a_loop_is_refused_after_it(is_doubled: Function) -> None:
    def function(dets: Array) -> Any:
        order = near = np.argsort(-dets[:, 4], kind="stable")
        while order.size > 0:
            i, rest = order[0], order[1:]
            near = rest[dets[rest, 4] > dets[i, 4] - 0.1]
            order = rest[dets[rest, 4] < dets[i, 4] - 0.2]
        return dets * 2 if is_doubled(near) else dets

    with pytest.raises(TraceError, match="one iteration of a loop has computed is used after the loop"):
        traced(function, [TensorType.of((N, 5))])


WITH_COMPUTED_LIMIT = (function_of_boxes, boxes_that_shrink, forever_until_nothing_is_left)
"""Loops that are a NonMaxSuppression, whose limit is computed: 0 where only the Loop computes the same."""


@pytest.mark.one_per("function")
@pytest.mark.one_per("sizes")
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize(
    ("function", "sizes"),
    [(f, sizes) for f in CASES for sizes in ((N, 9), (N,)) if len(sizes) == 1 or f is not function_of_boxes],
)  # keep[:5] needs a fixed number of boxes
def test_a_written_loop_runs_on_engines_again(
    function: Function, sizes: tuple[int, ...], suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / f"boxes.{suffix}"
    shapes = {"dets": ("N", 5)} if len(sizes) > 1 else None
    anylayer.export(function, arrays()[0], path=file, shapes=shapes)
    net = anylayer.read(file)
    if suffix == "xml" and len(sizes) == 1 and function in WITH_COMPUTED_LIMIT:
        with pytest.raises(LayerError, match="max_output_boxes_per_class must be positive, got 0"):
            net.compile("openvino")
        return
    for engine in ALL:
        if suffix == "xml" and function is of_a_selection and engine != "numpy":
            with pytest.raises(LayerError, match="Use engine 'numpy'"):
                net.compile(engine)
            continue
        model = net.compile(engine)
        for n in sizes:
            check(lambda d, n=n: function(d[:n]), lambda d, n=n, m=model: m({"dets": d[:n]}).values())
