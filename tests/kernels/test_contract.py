"""The contract between a network and a layer in C++: parameters, blobs, order of calls, memory, threads."""

from __future__ import annotations

import gc
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.api import Net
from anylayer.errors import LayerError
from anylayer.network import Array
from tests.readers.openvino.test_spelling import X as X_IR
from tests.readers.openvino.test_spelling import one
from tests.threads import in_threads

X = np.arange(24, dtype=np.float32).reshape(1, 3, 4, 2)
ENGINES = ("numpy", "onnxruntime")


def net_of(
    folder: Path, type_: str, params: str = "", library: Path | None = None, tops: int = 1, *others: object
) -> Net:
    """Return a network of Input, ReLU, one layer of this type, ReLU."""
    names = [f"y{i}" for i in range(tops)]
    path = folder / f"{type_.lower()}.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }\n'
        'layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }\n'
        f'layer {{ name: "it" type: "{type_}" bottom: "relu" {" ".join(f"""top: "{n}" """ for n in names)}\n'
        f"  {params} }}\n"
        + "".join(f'layer {{ name: "r{n}" type: "ReLU" bottom: "{n}" top: "out{n}" }}\n' for n in names)
    )
    return anylayer.read(path, layers=[*([library] if library else []), *others])


def out(net: Net, x: Array = X, engine: str = "onnxruntime", threads: int | None = None) -> Array:
    """Return the first output of two calls, which must be equal."""
    model = net.compile(engine, threads=threads)
    first, second = (next(iter(model(x).values())).copy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    return first


def test_parameters_arrive_typed_signed_and_whole(tmp_path: Path, probe: Path) -> None:
    params = (
        'probe_param { a: -0.5 list: [1, -2] s: "text" e: WORD b: true wide: 5000000000 '
        "nested { inner: -3 } many { k: 1 } many { k: 2 } }"
    )
    wanted = (
        "a=-0.5 list=<1><-2> s=text e=WORD b=1 int=1 wide=5000000000 one=<-0.5> inner=-3 deep=-3 times=2 "
        "default=7 has=0 name=it type=Params"
    )
    with pytest.raises(LayerError, match=re.escape(f"layer 'it' (Params): libprobe.so: {wanted}")):
        net_of(tmp_path, "Params", params, probe).compile("onnxruntime")


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ('as: "int"', "parameter 'read' is missing"),
        ('as: "int" read: 1.5', "parameter 'read' is 1.5, expected an integer"),
        ('as: "int" read: 5000000000', "parameter 'read' is 5000000000, expected an integer that fits"),
        ('as: "int" read: "x"', "parameter 'read' is x, expected an integer"),
        ('as: "unsigned" read: -1', "parameter 'read' is -1, expected an integer that fits"),
        ('as: "float" read: "x"', "parameter 'read' is x, expected a number"),
        ('as: "float" read: 1 read: 2', "parameter 'read' is a list of 2 values, expected one value"),
        ('as: "bool" read: maybe', "parameter 'read' is maybe, expected true or false"),
        ('as: "message" read { k: 1 } read { k: 2 }', "message 'read' is there 2 times, expected 1"),
    ],
)
def test_a_parameter_of_another_kind_is_refused_by_name(
    tmp_path: Path, probe: Path, params: str, rule: str
) -> None:
    with pytest.raises(LayerError, match=re.escape(f"layer 'it' (Reads): libprobe.so: {rule}")):
        net_of(tmp_path, "Reads", f"reads_param {{ {params} }}", probe).compile("onnxruntime")


@pytest.mark.parametrize("params", ['as: "int" read: 2.0', 'as: "bool" read: "true"', 'as: "float" read: 3'])
def test_a_parameter_is_converted_where_nothing_is_lost(tmp_path: Path, probe: Path, params: str) -> None:
    np.testing.assert_array_equal(out(net_of(tmp_path, "Reads", f"reads_param {{ {params} }}", probe)), X)


def test_constructor_gets_blobs_as_float32(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "Blobs", "", probe)
    node = next(n for n in net.network.nodes if n.name == "it")
    node.blobs = [np.array([1.0, 2.0], np.float64), np.full((2, 3), 0.5, np.float16).T]
    np.testing.assert_array_equal(out(net), X + 6)


@pytest.mark.parametrize("name", ["weights", "custom"])
def test_blobs_have_the_names_of_the_ir(tmp_path: Path, probe: Path, name: str) -> None:
    values = np.arange(4, dtype=np.float32)
    path = one(tmp_path, "Blobs", {"name": name}, X_IR.shape, blobs={name: values}, version=2)
    np.testing.assert_array_equal(out(anylayer.read(path, layers=[probe]), X_IR), X_IR + 6)
    path = one(tmp_path, "Blobs", {"name": "other"}, X_IR.shape, blobs={name: values}, version=2)
    with pytest.raises(LayerError, match=f"libprobe.so: a blob is called {name}"):
        anylayer.read(path, layers=[probe]).compile("onnxruntime")


@pytest.mark.parametrize("engine", ENGINES)
def test_internal_arrays_are_scratch_memory(tmp_path: Path, probe: Path, engine: str) -> None:
    np.testing.assert_array_equal(out(net_of(tmp_path, "Internals", "", probe), engine=engine), 3 * X)


@pytest.mark.parametrize("engine", ENGINES)
def test_reading_an_internal_array_before_writing_it_is_refused(tmp_path: Path, probe: Path, engine: str) -> None:
    net = net_of(tmp_path, "Internals", "internals_param { bad: true }", probe)
    with pytest.raises(LayerError, match=r"forward leaves 24 of 24 values of output 0 without a value"):
        out(net, engine=engine)


def test_memory_is_undefined_between_calls(tmp_path: Path, probe: Path) -> None:
    model = net_of(tmp_path, "Internals", "", probe).compile("onnxruntime")
    assert model.plan is not None
    (traced,) = [t for t in model.plan.nodes if t.kernel is not None]
    for _ in range(3):
        traced.kernel.checked = False  # fills the memory with NaN again
        np.testing.assert_array_equal(next(iter(model(X).values())), 3 * X)


def test_an_output_that_is_not_filled_is_refused(tmp_path: Path, probe: Path) -> None:
    with pytest.raises(LayerError, match=r"layer 'it' \(Unfilled\): libprobe.so: forward leaves 3 of 24 values"):
        out(net_of(tmp_path, "Unfilled", "", probe))


def test_an_input_that_is_written_to_is_refused(tmp_path: Path, probe: Path) -> None:
    with pytest.raises(LayerError, match="forward writes to input 0, which other layers may read"):
        out(net_of(tmp_path, "WritesInput", "", probe))


def test_functions_of_a_library_are_called_in_order(
    tmp_path: Path, probe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gc.collect()
    capfd.readouterr()
    model = net_of(tmp_path, "Logs", "", probe).compile("onnxruntime", threads=1)
    for shape in [(1, 3, 4, 2), (1, 3, 4, 2), (2, 1, 1, 5)]:
        model(np.ones(shape, np.float32))
    del model
    gc.collect()
    lines = capfd.readouterr().err.splitlines()
    assert [line.removeprefix("libprobe.so: ") for line in lines] == [
        "create it",
        "getMemoryShapes <1><3><4><2> 1",
        "finalize <1><3><4><2> <1><3><4><2>",
        "forward 1",
        "forward 1",
        "create it",
        "getMemoryShapes <2><1><1><5> 1",
        "finalize <2><1><1><5> <2><1><1><5>",
        "forward 1",
        "destroy it",
        "destroy it",
    ]


def test_a_layer_that_states_channels_last_is_given_them(tmp_path: Path, probe: Path) -> None:
    want = X + np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)
    np.testing.assert_array_equal(out(net_of(tmp_path, "First", "", probe)), want)
    net = net_of(tmp_path, "Last", "", probe)
    np.testing.assert_array_equal(out(net), want)
    notes = "\n".join(net.inspect().notes)
    assert (
        "libprobe.so sees input 0 as NHWC [1, 4, 2, 3], the file has NCHW: it is transposed in each call" in notes
    )
    assert "libprobe.so sees output 0 as NHWC [1, 4, 2, 3]" in notes


def test_half_precision_is_converted_both_ways(tmp_path: Path, probe: Path) -> None:
    x = np.linspace(0, 1000, 24, dtype=np.float32).reshape(X.shape)
    net = net_of(tmp_path, "Half", "", probe)
    np.testing.assert_array_equal(out(net, x), (x.astype(np.float16) * np.float16(2)).astype(np.float32))
    assert any("has input 0 as float16, the network has float32" in note for note in net.inspect().notes)


def test_half_precision_conversions_of_the_sdk_match_numpy(tmp_path: Path, probe: Path) -> None:
    bits = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)  # all finite values
    x = np.concatenate([bits, bits[:-1] / 2 + bits[1:] / 2]) / 2
    with np.errstate(over="ignore"):
        want = (x.astype(np.float16).astype(np.float32) * 2).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(out(net_of(tmp_path, "Half", "", probe), x.reshape(1, 1, 1, -1)).ravel(), want)


def test_an_output_may_lie_over_its_input(tmp_path: Path, probe: Path) -> None:
    x = X.copy()
    net = net_of(tmp_path, "InPlace", "", probe)
    np.testing.assert_array_equal(out(net, x), 2 * X)
    np.testing.assert_array_equal(x, X)
    assert "in place" in net.inspect().nodes[1].reason


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        (["fine"], 0),
        (["double", "fine"], 1),  # without conversions
        (["double"], 0),
        (["refuses", "fine", "fine"], 1),
        (["status", "never", "changes"], 2),
        (["changes", "fine"], 0),
    ],
)
def test_the_first_configuration_that_both_accept_is_taken(
    tmp_path: Path, probe: Path, offers: list[str], chosen: int
) -> None:
    params = "several_param { " + " ".join(f'offers: "{o}"' for o in offers) + " }"
    net = net_of(tmp_path, "Several", params, probe)
    np.testing.assert_array_equal(out(net), X + chosen)
    assert f"implementation '{offers[chosen]}'" in net.inspect().nodes[1].reason
    assert "in place" not in net.inspect().nodes[1].reason


def test_reasons_are_reported_if_no_configuration_fits(tmp_path: Path, probe: Path) -> None:
    net = net_of(
        tmp_path, "Several", 'several_param { offers: "refuses" offers: "status" offers: "never" }', probe
    )
    with pytest.raises(LayerError) as caught:
        net.compile("onnxruntime")
    text = str(caught.value)
    assert (
        "layer 'it' (Several): libprobe.so: no configuration fits: implementation 'refuses', float32, any" in text
    )
    for part in ("only on Sundays", "init refuses the configuration", "changed 4 times, and not accepted"):
        assert part in text


def test_a_blocked_layout_is_refused(tmp_path: Path, probe: Path) -> None:
    with pytest.raises(LayerError, match="asks for a blocked layout, which anylayer does not have"):
        net_of(tmp_path, "Blocked", "", probe).compile("onnxruntime")


def calls_at_once(net: Net) -> float:
    """Return how many threads were in the layer at the same time, of four that call one model."""
    model = net.compile("onnxruntime", threads=1)
    model(X)
    found: list[float] = []
    in_threads(lambda _: found.append(float(next(iter(model(X).values())).max())), range(4))
    return max(found)


def test_calls_take_turns_unless_the_layer_is_reentrant(tmp_path: Path, probe: Path) -> None:
    assert calls_at_once(net_of(tmp_path, "Alone", "", probe)) == 1
    assert calls_at_once(net_of(tmp_path, "Together", "", probe)) > 1


@pytest.mark.parametrize("tops", [1, 2])
def test_a_layer_may_have_several_outputs(tmp_path: Path, probe: Path, tops: int) -> None:
    x = np.random.default_rng(0).random((5, 7), np.float32)
    results = net_of(tmp_path, "Largest", "", probe, tops).compile("onnxruntime")(x)
    np.testing.assert_array_equal(results["outy0"], x.argmax(1))
    if tops > 1:
        np.testing.assert_array_equal(results["outy1"], x.max(1))


def test_integers_that_are_not_written_are_found(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "Largest", "largest_param { lazy: true }", probe)
    with pytest.raises(LayerError, match=r"forward leaves 1 of 5 values of output 0 without a value"):
        net.compile("onnxruntime")(np.ones((5, 7), np.float32))


def test_outputs_are_written_into_buffers(tmp_path: Path, probe: Path) -> None:
    path = tmp_path / "last.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }\n'
        'layer { name: "a" type: "First" bottom: "data" top: "a" }\n'
        'layer { name: "b" type: "Last" bottom: "data" top: "b" }\n'
    )
    model = anylayer.read(path, layers=[probe]).compile("onnxruntime")
    want = X + np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)
    for _ in range(2):
        buffers = {name: np.zeros_like(X) for name in "ab"}
        results = model(X, out=buffers)
        for name, buffer in buffers.items():
            assert results[name] is buffer
            np.testing.assert_array_equal(buffer, want)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_was_forked_has_threads_of_its_own(tmp_path: Path, examples: Path) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 400 dim: 1000 } } }\n'
        'layer { name: "it" type: "Double" bottom: "data" top: "out" }\n'
    )
    model = anylayer.read(path, layers=[examples]).compile("onnxruntime", threads=4)
    x = np.ones((400, 1000), np.float32)
    for _ in range(2):
        assert model(x)["out"].min() == 2
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if model(x)["out"].min() == 2 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
