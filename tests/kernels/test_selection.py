"""Which definition of a layer type is used where a library, a Python class and a built-in layer define it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import InputError, LayerError, UnknownLayers
from anylayer.inspect.profile import profile
from anylayer.inspect.verify import verify
from tests.kernels.test_contract import X, net_of, out


class First:
    """The channel's index is added, as the library's First does."""

    def __init__(self, params: object, blobs: object) -> None: ...

    def forward(self, inputs: list[Any]) -> list[Any]:
        x = inputs[0]
        return [x + np.arange(x.shape[1], dtype=np.float32).reshape(1, -1, 1, 1)]


class Other(First):
    """Something else than the library's First."""

    def forward(self, inputs: list[Any]) -> list[Any]:
        return [inputs[0] - 1]


class Dynamic(First):
    """As First, with a branch on data, so that it cannot be traced."""

    def forward(self, inputs: list[Any]) -> list[Any]:
        return super().forward(inputs) if float(str(inputs[0].sum())) < 1e9 else [inputs[0]]


WANT = X + np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)


def test_the_library_computes_and_the_class_is_its_reference(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "First", "", probe, 1, ("First", Other))
    np.testing.assert_array_equal(out(net), WANT)
    np.testing.assert_array_equal(out(net, engine="numpy"), np.maximum(X - 1, 0))
    check = next(c for c in verify(net, {"data": X}) if c.name == "it")
    assert not check.ok
    assert next(c for c in verify(net_of(tmp_path, "First", "", probe, 1, ("First", First)), {"data": X})).ok
    row = net.inspect().nodes[1]
    assert (row.where, row.origin) == ("native", str(probe))
    assert row.reason.startswith("float32, NCHW; NumPy class: ")


def test_a_library_replaces_the_host_call_of_an_untraceable_class(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "First", "", probe, 1, ("First", Dynamic))
    np.testing.assert_array_equal(out(net), WANT)
    assert net.compile("onnxruntime").host_calls == []


def test_a_built_in_class_is_the_reference_of_a_library(tmp_path: Path, examples: Path) -> None:
    path = tmp_path / "interp.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }\n'
        'layer { name: "it" type: "Interp" bottom: "data" top: "out" interp_param { height: 7 width: 3 } }\n'
    )
    row = anylayer.read(path, layers=[examples]).inspect().nodes[0]
    assert (row.where, row.reason) == ("native", "float32, NCHW, reentrant; NumPy class: built-in")


def test_two_libraries_with_one_type_are_refused_unless_one_is_chosen(tmp_path: Path, probe: Path) -> None:
    other = tmp_path / "libother.so"
    shutil.copy(probe, other)
    with pytest.raises(
        InputError, match=re.escape(f"two libraries have layer type 'Params': {probe} and {other}")
    ):
        anylayer.read(net_of(tmp_path, "First", "", probe).network.source, layers=[probe, other])
    types = ["First", "Last"]
    with pytest.raises(InputError, match="two libraries have layer type"):
        anylayer.read(tmp_path / "first.prototxt", layers=[probe, other, *(f"{t}={other}" for t in types)])
    net = anylayer.read(tmp_path / "first.prototxt", layers=[f"First={other}"])
    assert net.kernels["First"].origin == str(other)
    np.testing.assert_array_equal(out(net), WANT)
    with pytest.raises(InputError, match=r"libother.so has no layer type 'Firts'; did you mean 'First'\?"):
        anylayer.read(tmp_path / "first.prototxt", layers=[f"Firts={other}"])


def test_one_library_given_twice_is_one_library(tmp_path: Path, probe: Path) -> None:
    net = anylayer.read(net_of(tmp_path, "First", "", probe).network.source, layers=[probe, str(probe)])
    np.testing.assert_array_equal(out(net), WANT)


def test_a_type_that_the_library_does_not_have_is_unknown(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "Frist", "", probe)
    with pytest.raises(UnknownLayers, match=r"'Frist' \(layer 'it'\); did you mean 'First'\?"):
        net.compile("onnxruntime")
    assert "no layer has the type 'First', for which a class is given; did you mean 'Frist'?" in net.network.notes


def test_a_network_whose_layer_is_native_alone_is_not_written(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "First", "", probe)
    with pytest.raises(LayerError) as caught:
        net.write(tmp_path / "n.onnx")
    assert str(caught.value) == (
        f"{tmp_path}/first.prototxt:3: layer 'it' (First): a native kernel computes it ({probe}), which a file "
        "cannot hold. Give a NumPy class of the type beside the library, or keep it for a runtime that has it: "
        "keep=['First']"
    )
    assert not (tmp_path / "n.onnx").exists()


def test_a_network_is_written_with_the_operators_of_the_numpy_class(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "First", "", probe, 1, ("First", First))
    net.write(tmp_path / "n.onnx")
    np.testing.assert_array_equal(out(anylayer.read(tmp_path / "n.onnx")), WANT)


def test_a_native_layer_is_kept_where_the_target_has_it(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "First", "", probe)
    net.write(tmp_path / "n.onnx", keep=["First"])
    again = anylayer.read(tmp_path / "n.onnx", layers=[probe])
    np.testing.assert_array_equal(out(again), WANT)


def test_profile_measures_the_kernel(tmp_path: Path, probe: Path) -> None:
    for layers in ((), (("First", First),)):
        net = net_of(tmp_path, "First", "", probe, 1, *layers)
        costs = {cost.layers: cost for cost in profile(net, {"data": X}, "onnxruntime", seconds=0.01).costs}
        assert 0 < costs["it",].seconds < 1
        assert (costs["it",].where, costs["it",].bytes) == ("native", 2 * X.nbytes)


def test_a_network_on_auto_measures_its_graphs_with_the_kernel_between(tmp_path: Path, probe: Path) -> None:
    model = net_of(tmp_path, "First", "", probe, 1, ("First", First)).compile()
    np.testing.assert_array_equal(model(X)["outy0"], WANT)


def test_a_size_that_depends_on_data_is_refused(tmp_path: Path, probe: Path) -> None:
    from onnx import TensorProto, helper, save

    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("First", ["f"], ["y"], domain="mine"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "n.onnx")
    with pytest.raises(LayerError, match=r"libprobe.so: input 0 is float32\[2, <=6\], whose size depends on data"):
        anylayer.read(tmp_path / "n.onnx", layers=[probe]).compile("onnxruntime")


def test_a_native_layer_runs_in_an_onnx_network(tmp_path: Path, probe: Path) -> None:
    from onnx import TensorProto, helper, save

    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Largest", ["r"], ["i", "v"], domain="mine", lazy=0),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "iv"],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "n.onnx")
    x = np.random.default_rng(0).random((4, 3), np.float32)
    for engine in ("numpy", "onnxruntime"):
        results = anylayer.read(tmp_path / "n.onnx", layers=[probe]).compile(engine)(x)
        np.testing.assert_array_equal(results["i"], x.argmax(1))
        assert results["i"].dtype == np.int64
        np.testing.assert_array_equal(results["v"], x.max(1))


def test_built_in_class_that_ignores_parameters_is_not_the_reference(tmp_path: Path, examples: Path) -> None:
    path = tmp_path / "interp.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }\n'
        'layer { name: "it" type: "Interp" bottom: "data" top: "out" mine_param { height: 7 width: 3 } }\n'
    )
    net = anylayer.read(path, layers=[examples])
    assert net.inspect().nodes[0].reason == "float32, NCHW, reentrant; no NumPy class"
    assert out(net).shape == (1, 3, 7, 3)


@pytest.mark.parametrize("constant", [False, True])
def test_a_built_in_operator_is_the_reference_unless_it_has_constants(
    tmp_path: Path, probe: Path, constant: bool
) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    # the library's "Blobs" adds its blobs' values; here it stands for an operator of ONNX's name
    library = tmp_path / "libadd.so"
    library.write_bytes(probe.read_bytes().replace(b"Blobs\0", b"Relu\0\0").replace(b"First\0", b"Add\0\0\0"))
    weights = [numpy_helper.from_array(np.zeros(1, np.float32), "c")] if constant else []
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "c"], ["y"]) if constant else helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "n.onnx")
    net = anylayer.read(tmp_path / "n.onnx", layers=[library])
    row = net.inspect().nodes[0]
    assert row.where == "native"
    assert row.reason.endswith("; no NumPy class" if constant else "; NumPy class: built-in")
    np.testing.assert_array_equal(out(net), WANT if constant else X)


def test_a_library_is_refused_as_a_layers_file_with_a_class(tmp_path: Path, probe: Path) -> None:
    with pytest.raises(InputError, match=f"a library has layer types, not classes. Write First={probe}$"):
        anylayer.read(net_of(tmp_path, "First", "", probe).network.source, layers=[f"First={probe}:First"])
