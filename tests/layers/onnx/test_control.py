"""Tests of If, Loop and Scan."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import anylayer
from anylayer.errors import AnyLayerError, EngineError, InputError, LayerError
from anylayer.layers import _control
from tests.engine_names import GENERAL
from tests.readers.onnx.files import model, save, value

node = helper.make_node
SAMPLE = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def graph(nodes: Any, inputs: Any, outputs: list[str], **constants: Any) -> Any:
    given = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    return helper.make_graph(nodes, "inside", inputs, [value(n, None) for n in outputs], given)


def run(path: Path, feed: dict[str, Any], host: int = 0) -> list[np.ndarray]:
    """Return the outputs, which must be the same on every engine; `host` is the number of layers that run in
    Python.
    """
    net = anylayer.read(path)
    want = net.compile("numpy")(feed)
    for engine in GENERAL:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = net.compile(engine)
        got = made(feed)
        assert len(made.host_calls) == host
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-5)
    return list(want.values())


def either(condition: Any = None) -> Path:
    """Write y = x + 1 if c, else x * w. Both branches read an outer value, and one has a weight of its own."""
    then = graph([node("Add", ["x", "one"], ["a"])], [], ["a"], one=np.float32(1))
    other = graph([node("Mul", ["x", "w"], ["b"])], [], ["b"])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    constants = {"w": np.float32([1, 2, 3]), **({} if condition is None else {"c": np.array(condition)})}
    inputs = [value("x", [2, 3]), *([value("c", [], bool)] if condition is None else [])]
    return save(model(nodes, inputs, ["y"], constants))


@pytest.mark.parametrize("condition", [True, False])
def test_if_with_constant_condition_is_one_branch(condition: bool) -> None:
    want = SAMPLE + 1 if condition else SAMPLE * np.float32([1, 2, 3])
    path = either(condition)
    np.testing.assert_array_equal(run(path, {"x": SAMPLE})[0], want)
    (step,) = anylayer.read(path).compile("onnxruntime").plan.steps
    assert [o.op for o in step.graph.ops] == ["Add" if condition else "Mul"]


@pytest.mark.parametrize("condition", [True, False])
def test_if_with_dynamic_condition_selects_between_both(condition: bool) -> None:
    want = SAMPLE + 1 if condition else SAMPLE * np.float32([1, 2, 3])
    np.testing.assert_array_equal(run(either(), {"x": SAMPLE, "c": np.array(condition)})[0], want)


def products() -> Path:
    """Write y, z = x @ a, x if c, else (x + 1) @ b @ b, -x: sides that are worth to be left out."""
    then = graph([node("MatMul", ["x", "a"], ["p"]), node("Identity", ["x"], ["q"])], [], ["p", "q"])
    nodes = [
        node("Add", ["x", "one"], ["d"]),
        node("MatMul", ["d", "b"], ["e"]),
        node("MatMul", ["e", "b"], ["f"]),
        node("Neg", ["x"], ["g"]),
    ]
    nodes = [node("If", ["c"], ["y", "z"], then_branch=then, else_branch=graph(nodes, [], ["f", "g"]))]
    constants = {"a": 2 * np.eye(3, dtype=np.float32), "b": np.ones((3, 3), np.float32), "one": np.float32(1)}
    return save(model(nodes, [value("x", [2, 3]), value("c", [], bool)], ["y", "z"], constants))


def expected(x: Any, condition: bool) -> tuple[Any, Any]:
    b = np.ones((3, 3), np.float32)
    return (2 * x, x) if condition else ((x + 1) @ b @ b, -x)


@pytest.mark.parametrize("condition", [True, False])
def test_if_with_products_runs_one_side(condition: bool) -> None:
    path = products()
    results = run(path, {"x": SAMPLE, "c": np.array(condition)})
    for result, want in zip(results, expected(SAMPLE, condition)):
        np.testing.assert_allclose(result, want, rtol=1e-6)
    (step,) = anylayer.read(path).compile("onnxruntime").plan.steps
    assert {o.op for o in step.graph.ops} <= {"Cast", "Equal", "Not", "Loop"}
    assert [o.op for o in step.graph.ops].count("Loop") == 2


@pytest.mark.parametrize("engine", GENERAL)
def test_if_with_products_and_open_sizes(engine: str) -> None:
    compiled = anylayer.read(products()).compile(engine, shapes={"x": ("N", 3)})
    for rows in (1, 4):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        for condition in (True, False):
            results = compiled({"x": x, "c": np.array(condition)})
            for name, want in zip("yz", expected(x, condition)):
                np.testing.assert_allclose(results[name], want, rtol=1e-6)


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_written_if_and_loop_are_read_back(suffix: str) -> None:
    for source in (products(), loop("m"), loop(3)):
        net = anylayer.read(source)
        net.write(f"written.{suffix}")
        again = anylayer.read(f"written.{suffix}")
        for condition, most in ((True, 1), (False, 4)):
            inputs = {"x": SAMPLE, "c": np.array(condition), "m": np.array(most, np.int64)}
            feed = {name: inputs[name] for name in net.network.inputs}
            want = net.compile("numpy")(feed)
            for engine in ("numpy", *GENERAL):
                results = again.compile(engine)(feed)
                for name, array in want.items():
                    np.testing.assert_allclose(results[name], array, rtol=1e-6)


@pytest.mark.parametrize("order", [("then_branch", "else_branch"), ("else_branch", "then_branch")])
@pytest.mark.parametrize("condition", [True, False, None])
def test_captured_values_do_not_depend_on_order_of_attributes(order: tuple[str, str], condition: Any) -> None:
    """Each branch of the outer If captures two values; one of them is captured by an If inside it, too."""
    nested = node(
        "If",
        ["d"],
        ["n"],
        then_branch=graph([node("Sub", ["a", "x"], ["p"])], [], ["p"]),
        else_branch=graph([node("Div", ["x", "b"], ["q"])], [], ["q"]),
    )
    then = graph([nested, node("Sub", ["n", "a"], ["r"])], [], ["r"])
    outer = node(
        "If", ["c"], ["y"], then_branch=then, else_branch=graph([node("Sub", ["b", "x"], ["s"])], [], ["s"])
    )
    for one in (nested, outer):
        by_name = {attribute.name: attribute for attribute in one.attribute}
        del one.attribute[:]
        one.attribute.extend(by_name[name] for name in order)
    constants = {
        "a": np.float32(10),
        "b": np.float32(4),
        **({} if condition is None else {"c": np.array(condition)}),
    }
    inputs = [value("x", [2, 3]), value("d", [], bool), *([value("c", [], bool)] if condition is None else [])]
    path = save(model([outer], inputs, ["y"], constants))
    for c in (True, False) if condition is None else (condition,):
        for d in (True, False):
            feed = {"x": SAMPLE, "d": np.array(d), **({"c": np.array(c)} if condition is None else {})}
            want = ((10 - SAMPLE if d else SAMPLE / 4) - 10) if c else 4 - SAMPLE
            np.testing.assert_allclose(run(path, feed)[0], want, rtol=1e-6)


def test_loop_and_scan_capture_values_behind_their_own_inputs() -> None:
    """A Loop without a condition and a Scan read two outer values each."""
    step = graph(
        [node("Mul", ["s", "b"], ["m"]), node("Sub", ["m", "a"], ["t"]), node("Identity", ["go"], ["again"])],
        [value("turn", [], np.int64), value("go", [], bool), value("s", [2, 3])],
        ["again", "t"],
    )
    row = graph([node("Sub", ["r", "a"], ["u"]), node("Div", ["u", "b"], ["v"])], [value("r", [3])], ["v"])
    nodes = [
        node("Loop", ["m", "", "x"], ["z"], body=step),
        node("Scan", ["z"], ["y"], body=row, num_scan_inputs=1),
    ]
    constants = {"m": np.int64(2), "a": np.float32(3), "b": np.float32(5)}
    path = save(model(nodes, [value("x", [2, 3])], ["y"], constants))
    want = ((SAMPLE * 5 - 3) * 5 - 3 - 3) / 5
    np.testing.assert_allclose(run(path, {"x": SAMPLE})[0], want, rtol=1e-6)


def test_if_with_branches_of_different_shapes_is_a_host_call() -> None:
    then = graph([node("Slice", ["x", "p", "q"], ["a"])], [], ["a"], p=np.int64([0]), q=np.int64([1]))
    other = graph([node("Identity", ["x"], ["b"])], [], ["b"])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    path = save(model(nodes, [value("x", [2, 3]), value("c", [], bool)], ["y"]))
    assert run(path, {"x": SAMPLE, "c": np.array(True)}, host=1)[0].shape == (1, 3)
    assert run(path, {"x": SAMPLE, "c": np.array(False)}, host=1)[0].shape == (2, 3)


def loop(most: Any, condition: str = "go") -> Path:
    """Write a loop in which s doubles and grows by x in each iteration; each s is a row of the output."""
    body = graph(
        [
            node("Identity", ["go"], ["again"]),
            node("Add", ["s", "s"], ["d"]),
            node("Add", ["d", "x"], ["t"]),
            node("Identity", ["t"], ["row"]),
        ],
        [value("turn", [], np.int64), value("go", [], bool), value("s", [2, 3])],
        ["again", "t", "row"],
    )
    nodes = [node("Loop", ["m", "", "x"], ["last", "rows"], body=body)]
    known = isinstance(most, int)
    inputs = [value("x", [2, 3]), *([] if known else [value("m", [], np.int64)])]
    return save(model(nodes, inputs, ["last", "rows"], {"m": np.int64(most)} if known else {}))


def test_loop_of_constant_length_is_unrolled() -> None:
    last, rows = run(loop(3), {"x": SAMPLE})
    np.testing.assert_array_equal(last, 15 * SAMPLE)
    np.testing.assert_array_equal(rows, np.stack([3 * SAMPLE, 7 * SAMPLE, 15 * SAMPLE]))


def test_loop_that_ends_by_data_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_control, "MAX_STEPS", 100)  # with zeros, it does not end
    body = graph(
        [
            node("Add", ["s", "s"], ["d"]),
            node("ReduceMax", ["d"], ["top"], keepdims=0),
            node("Less", ["top", "e"], ["on"]),
        ],
        [value("turn", [], np.int64), value("go", [], bool), value("s", [2, 3])],
        ["on", "d"],
        e=np.float32(30),
    )
    path = save(
        model([node("Loop", ["", "c", "x"], ["y"], body=body)], [value("x", [2, 3])], ["y"], {"c": np.array(True)})
    )
    np.testing.assert_array_equal(run(path, {"x": SAMPLE})[0], 8 * SAMPLE)


def test_endless_loop_is_refused() -> None:
    body = graph(
        [node("Identity", ["go"], ["again"]), node("Identity", ["s"], ["t"])],
        [value("turn", [], np.int64), value("go", [], bool), value("s", [2, 3])],
        ["again", "t"],
    )
    path = save(model([node("Loop", ["", "", "x"], ["y"], body=body)], [value("x", [2, 3])], ["y"]))
    with (
        pytest.raises(LayerError, match="its loop exceeds the limit of 30000 steps"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        anylayer.read(path).compile("onnxruntime")


@pytest.mark.parametrize("back", [0, 1])
def test_scan_along_an_axis(back: int) -> None:
    body = graph(
        [node("Add", ["s", "c"], ["t"]), node("Mul", ["t", "two"], ["row"])],
        [value("s", [2]), value("c", [2])],
        ["t", "row"],
        two=np.float32(2),
    )
    nodes = [
        node(
            "Scan",
            ["start", "x"],
            ["last", "rows"],
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_output_axes=[1],
            scan_input_directions=[back],
            scan_output_directions=[back],
        )
    ]
    path = save(model(nodes, [value("x", [2, 3])], ["last", "rows"], {"start": np.zeros(2, np.float32)}))
    last, rows = run(path, {"x": SAMPLE})
    sums = np.cumsum(SAMPLE[:, ::-1], 1)[:, ::-1] if back else np.cumsum(SAMPLE, 1)
    np.testing.assert_array_equal(last, SAMPLE.sum(1))
    np.testing.assert_array_equal(rows, 2 * sums)


@pytest.mark.parametrize("reader", [node("Neg", ["part"], ["y"]), node("Concat", ["part", "x"], ["y"], axis=0)])
def test_dynamic_input_of_a_layer_is_not_taken_as_constant(reader: Any) -> None:
    """A branch that is empty for sample data does not make its consumer a constant."""
    then = graph([node("Slice", ["x", "p", "q"], ["a"])], [], ["a"], p=np.int64([0]), q=np.int64([1]))
    other = graph([node("Slice", ["x", "p", "q"], ["b"])], [], ["b"], p=np.int64([0]), q=np.int64([0]))
    nodes = [
        node("If", ["c"], ["part"], then_branch=then, else_branch=other),
        reader,
    ]
    path = save(model(nodes, [value("x", [2, 3]), value("c", [], bool)], ["y"]))
    feed = {"x": SAMPLE, "c": np.array(True)}
    want = -SAMPLE[:1] if reader.op_type == "Neg" else np.concatenate([SAMPLE[:1], SAMPLE])
    np.testing.assert_array_equal(anylayer.read(path).compile("numpy")(feed)["y"], want)
    with pytest.raises(LayerError, match="reads 'part', whose size depends on data: layer 'If_0' runs in Python"):
        anylayer.read(path).compile("onnxruntime")


def only_one() -> Path:
    """Write y = x + 1 if rate == 16, else a product that no x of shape (2, 3) has."""
    then = graph([node("Add", ["x", "one"], ["a"])], [], ["a"], one=np.float32(1))
    other = graph([node("MatMul", ["x", "x"], ["b"])], [], ["b"])
    nodes = [
        node("Equal", ["rate", "sixteen"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    inputs = [value("x", [2, 3]), value("rate", [], np.int64)]
    return save(model(nodes, inputs, ["y"], {"sixteen": np.array(16, np.int64)}))


def test_impossible_branch_is_an_error_only_where_it_is_taken() -> None:
    path = only_one()
    np.testing.assert_array_equal(run(path, {"x": SAMPLE, "rate": np.array(16)})[0], SAMPLE + 1)
    net = anylayer.read(path)
    for engine in (*GENERAL, "numpy"):
        with pytest.raises(AnyLayerError, match=r"Gather|condition selects this branch.*constants="):
            net.compile(engine)({"x": SAMPLE, "rate": np.array(8)})
    assert "else_branch cannot be computed for these shapes: " in str(net.inspect().nodes[-1].notes)


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        (node("FooBar", ["x"], ["b"], domain="my"), "'my.FooBar' inside a graph is not defined|'FooBar' inside"),
        (node("Relu", ["x"], ["b"], slope=1.0), "Relu has no attribute 'slope'"),
        (node("Cast", ["x"], ["b"], to=77), "does not specify a valid type"),
        (node("Einsum", ["x"], ["b"], equation="ab,cd->a"), "takes 2 inputs"),
    ],
)
def test_only_shapes_make_a_branch_impossible(other: Any, rule: str) -> None:
    then = graph([node("Relu", ["x"], ["a"])], [], ["a"])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=graph([other], [], ["b"]))]
    path = save(model(nodes, [value("x", [2, 3]), value("c", [], bool)], ["y"]))
    with pytest.raises(LayerError, match=rule):
        anylayer.read(path).compile("onnxruntime")


@pytest.mark.parametrize("then", [True, False])
def test_an_ir_without_a_branch_is_refused(then: bool, tmp_path: Path) -> None:
    """An IR has no check of indices, so the condition has to be a constant."""
    possible = graph([node("Relu", ["x"], ["a"])], [], ["a"])
    other = graph([node("Transpose", ["x"], ["b"], perm=[0, 1, 2])], [], ["b"])
    first, second = (possible, other) if then else (other, possible)
    nodes = [node("If", ["c"], ["y"], then_branch=first, else_branch=second)]
    path = save(model(nodes, [value("x", [2, 3]), value("c", [], bool)], ["y"]))
    with pytest.raises(LayerError, match=r"layer 'If_0'.*a condition selects a branch.*constants="):
        anylayer.read(path).write(tmp_path / "out.xml")
    assert all(c.ok for c in anylayer.read(path, constants={"c": then}).write(tmp_path / "out.xml").checks)


def test_auto_and_verification_take_the_branch_that_is_possible(tmp_path: Path) -> None:
    net = anylayer.read(only_one())
    np.testing.assert_array_equal(net.compile("auto")({"x": SAMPLE, "rate": np.array(16)})["y"], SAMPLE + 1)
    assert all(check.ok for check in net.write(tmp_path / "out.onnx").checks)


def test_both_branches_impossible_is_an_error() -> None:
    then, other = (graph([node("MatMul", ["x", "x"], ["b"])], [], ["b"]) for _ in range(2))
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    path = save(model(nodes, [value("x", [2, 3]), value("c", [], bool)], ["y"], {}))
    with pytest.raises(LayerError, match="MatMul"):
        anylayer.read(path).compile("onnxruntime")


@pytest.mark.parametrize("engine", [*GENERAL, "numpy"])
def test_constants_of_read_choose_the_branch(engine: str, tmp_path: Path) -> None:
    net = anylayer.read(only_one(), constants={"rate": 16})
    assert list(net.inputs) == ["x"]
    model = net.compile(engine)
    np.testing.assert_array_equal(model({"x": SAMPLE})["y"], SAMPLE + 1)
    if model.plan is not None:
        assert [o.op for step in model.plan.steps for o in step.graph.ops] == ["Add"]
    assert not net.write(tmp_path / "out.onnx").notes


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"rat": 16}, "no input 'rat'; did you mean 'rate'"),
        ({"rate": [1, 2]}, r"has the input's shape \[\], got \(2,\)"),
        ({"rate": 16.5}, "16.5 is not of dtype int64"),
    ],
)
def test_constants_that_do_not_fit_are_refused(constants: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        anylayer.read(only_one(), constants=constants)


def test_branch_computes_its_constants_at_open_sizes(tmp_path: Path) -> None:
    nodes = [
        node("Concat", ["first", "last"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["padded"]),
        node("ReduceMean", ["padded"], ["b"], axes=[1], keepdims=0),
    ]
    then = graph(nodes, [], ["b"], first=np.array([0, 1]), last=np.array([0, 2]))
    other = graph([node("Identity", ["x"], ["a"])], [], ["a"])
    outer = [
        node("Shape", ["x"], ["s"]),
        node("Size", ["s"], ["rank"]),
        node("Equal", ["rank", "two"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    path = save(model(outer, [value("x", [None, 3])], ["y"], {"two": np.array(2)}, opset=17))
    done = anylayer.read(path).write(tmp_path / "out.onnx", shapes={"x": ("N", 3)})
    assert all(check.ok for check in done.checks)


def doubled_until(limit: str, inside: list[Any], inner: str) -> Any:
    """Return a loop over the state s of (2, 3) that doubles it while its largest value is below a limit."""
    nodes = [
        *inside,
        node("Add", [inner, inner], ["d"]),
        node("ReduceMax", ["d"], ["top"], keepdims=0),
        node("Less", ["top", limit], ["on"]),
    ]
    return graph(nodes, [value("turn", [], np.int64), value("go", [], bool), value("s", [2, 3])], ["on", "d"])


def nested(steps: Any) -> Path:
    """Write a loop until s is large, inside of another one; each takes at most so many steps."""
    inside = doubled_until("e", [], "s")
    for o in inside.node:  # other names than those of the loop around it
        for names in (o.input, o.output):
            names[:] = [f"{n}_in" if n not in ("e",) else n for n in names]
    for v in (*inside.input, *inside.output):
        v.name = f"{v.name}_in"
    outer = doubled_until("e", [node("Loop", ["m", "c", "s"], ["t"], body=inside)], "t")
    nodes = [node("Loop", ["m", "c", "x"], ["y"], body=outer)]
    constants = {"c": np.array(True), **({"m": np.array(steps)} if steps is not None else {})}
    inputs = [value("x", [2, 3]), value("e", [])] + [value("m", [], np.int64)] * (steps is None)
    return save(model(nodes, inputs, ["y"], constants))


@pytest.mark.parametrize("steps", [None, 40, 2**62])
@pytest.mark.parametrize("engine", [*GENERAL, "cpp"])
def test_nested_loops_that_do_not_end_are_an_error_of_the_call(
    engine: str, steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop outside takes at most 50 steps, and the one inside 30 in each of them."""
    monkeypatch.setattr(_control, "MAX_STEPS", 50)
    monkeypatch.setattr(_control, "_MAX_NESTED_STEPS", 1500)
    net = anylayer.read(nested(steps))
    made = net.compile(engine)
    feed = {"x": SAMPLE, "e": np.float32(1000), **({"m": np.array(20)} if steps is None else {})}
    np.testing.assert_array_equal(made(feed)["y"], net.compile("numpy")(feed)["y"])
    with pytest.raises(EngineError, match=r"index|indices"):
        made({**feed, "x": SAMPLE * 0, **({"m": np.array(2**30)} if steps is None else {})})


def test_nested_loops_of_too_many_steps_are_refused() -> None:
    """All steps of the inner loop together are above the limit, whatever the data are."""

    def body(inner: Any, name: str) -> Any:
        scalars = [value(f"turn{name}", [], np.int64), value(f"go{name}", [], bool)]
        again = node("Identity", [f"go{name}"], [f"on{name}"])
        return graph([again, *inner], [*scalars, value(f"s{name}", [2, 3])], [f"on{name}", f"t{name}"])

    inner = body([node("Sin", ["s1"], ["t1"])], "1")
    outer = body([node("Loop", ["m", "", "s0"], ["t0"], body=inner)], "0")
    nodes = [node("Loop", ["m", "", "x"], ["y"], body=outer)]
    path = save(model(nodes, [value("x", [2, 3])], ["y"], {"m": np.array(20_000)}))
    with pytest.raises(LayerError, match="times those of the loops around it exceed the limit of 10000000"):
        anylayer.read(path).compile("cpp")
