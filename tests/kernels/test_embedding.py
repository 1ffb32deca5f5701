"""Native layers as operators inside the graphs of ONNX Runtime and OpenVINO: the same results, checks, errors and
rules as between two graphs."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.engines import load_engine
from anylayer.errors import EngineError, LayerError
from anylayer.runtime.run import PlanRunner
from tests.engine_names import EMBEDDING
from tests.kernels.conftest import Built
from tests.kernels.test_contract import X, net_of, out
from tests.threads import in_threads


@pytest.fixture(params=EMBEDDING)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine; skips the test where its package is not installed."""
    try:
        load_engine(request.param)
    except EngineError as error:
        pytest.skip(str(error))
    return str(request.param)


def steps(model: anylayer.Model) -> int:
    """Return the number of calls that a run of the model makes."""
    runner = next(iter(model._runners.values()))
    assert isinstance(runner, PlanRunner)
    return len(runner._steps)


def test_a_layer_is_part_of_the_engines_graph(tmp_path: Path, probe: Path, engine: str) -> None:
    net = net_of(tmp_path, "First", "", probe)
    model = net.compile(engine)
    assert steps(model) == 1
    assert [type(step).__name__ for step in model.plan.steps] == ["GraphStep", "KernelStep", "GraphStep"]
    want = np.maximum(X, 0) + np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)
    for _ in range(3):  # the first call is checked, later ones call forward directly
        np.testing.assert_array_equal(model(X)["outy0"], want)
    assert model.native_layers == [("it", "First", str(probe))]


def test_a_network_of_native_layers_alone_is_not_given_to_the_engine_for_one_thread(
    tmp_path: Path, probe: Path, engine: str
) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 4 } } }\n'
        'layer { name: "a" type: "First" bottom: "data" top: "a" }\n'
        'layer { name: "b" type: "First" bottom: "a" top: "b" }\n'
    )
    net = anylayer.read(path, layers=[probe])
    models = [net.compile(engine, threads=threads) for threads in (1, 2)]
    assert [steps(model) for model in models] == [2, 1]
    for _ in range(2):
        one, two = (model(X)["b"] for model in models)
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("type_", ["Last", "Half", "InPlace", "Internals"])
def test_conversions_and_memory_are_those_of_the_contract(
    tmp_path: Path, probe: Path, engine: str, type_: str
) -> None:
    net = net_of(tmp_path, type_, "", probe)
    assert steps(net.compile(engine)) == 1
    np.testing.assert_array_equal(out(net, engine=engine), out(net, engine="numpy"))


def test_several_outputs_and_element_types(tmp_path: Path, probe: Path, engine: str) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 5 } } }\n'
        'layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }\n'
        'layer { name: "it" type: "Largest" bottom: "relu" top: "place" top: "value" }\n'
        'layer { name: "end" type: "ReLU" bottom: "value" top: "end" }\n'
    )
    model = anylayer.read(path, layers=[probe]).compile(engine, outputs=["place", "end"])
    x = np.random.default_rng(0).standard_normal((2, 5), np.float32)
    for _ in range(2):
        got = model(x)
        np.testing.assert_array_equal(got["place"], x.argmax(1))
        np.testing.assert_array_equal(got["end"], np.maximum(x.max(1), 0))


@pytest.mark.parametrize(
    ("type_", "params", "rule"),
    [
        ("Unfilled", "", "forward leaves 3 of 24 values of output 0 without a value"),
        ("WritesInput", "", "forward writes to input 0, which other layers may read"),
        ("Throws", "", "it is broken"),
        ("Throws", 'p { what: "number" }', "an exception that is not a std::exception was thrown"),
        ("Throws", 'p { in: "no" }', "a thread is broken"),
    ],
)
def test_errors_name_file_layer_and_library(
    tmp_path: Path, probe: Path, engine: str, type_: str, params: str, rule: str
) -> None:
    net = net_of(tmp_path, type_, params, probe)
    model = net.compile(engine)
    assert steps(model) == 1
    place = f"{type_.lower()}.prototxt:3: layer 'it' ({type_}): libprobe.so: {rule}"
    for _ in range(2):
        with pytest.raises(LayerError, match=re.escape(place)):
            model(X)


SECOND = """
#include <anylayer/layer.hpp>
struct Second : anylayer::Layer {
  using Layer::Layer;
  bool reentrant() const override { return true; }
  void forward(anylayer::InputArrays x, anylayer::OutputArrays y, anylayer::OutputArrays) override {
    const float* from = x[0].ptr<float>();
    anylayer::parallel_for(static_cast<int64_t>(y[0].total()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (from[i] > 100) ANYLAYER_THROW << "value " << i << " is above 100";
        y[0].ptr<float>()[i] = from[i] + 1;
      }
    });
  }
};
ANYLAYER_REGISTER_LAYER(Second, Second)
"""


@pytest.fixture(scope="module")
def second(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose layer adds 1 in parallel, and refuses values above 100."""
    source = tmp_path_factory.mktemp("second") / "second.cpp"
    source.write_text(SECOND)
    return built("second", source)


def test_an_error_in_a_later_call_names_the_layer(tmp_path: Path, second: Path, engine: str) -> None:
    model = net_of(tmp_path, "Second", "", second).compile(engine, threads=2)
    np.testing.assert_array_equal(model(X)["outy0"], X + 1)
    np.testing.assert_array_equal(model(X + 1)["outy0"], X + 2)
    bad = X.copy()
    bad[0, 2, 3, 1] = 101
    for _ in range(2):
        with pytest.raises(
            LayerError, match=r"second.prototxt:3: layer 'it' \(Second\): libsecond.so: value 23 is"
        ):
            model(bad)
    np.testing.assert_array_equal(model(X)["outy0"], X + 1)


def test_two_libraries_are_in_one_graph(tmp_path: Path, probe: Path, second: Path, engine: str) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }\n'
        'layer { name: "a" type: "First" bottom: "data" top: "a" }\n'
        'layer { name: "b" type: "Second" bottom: "a" top: "b" }\n'
        'layer { name: "c" type: "First" bottom: "b" top: "c" }\n'
    )
    model = anylayer.read(path, layers=[probe, second]).compile(engine)
    assert steps(model) == 1
    want = X + 1 + 2 * np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)
    for _ in range(2):
        np.testing.assert_array_equal(model(X)["c"], want)


LENT = """
#include <anylayer/layer.hpp>
struct Lent : anylayer::Layer {
  using Layer::Layer;
  bool reentrant() const override { return true; }
  void forward(anylayer::InputArrays x, anylayer::OutputArrays y, anylayer::OutputArrays) override {
    const int lent = anylayer::detail::host != nullptr;
    for (std::size_t i = 0; i < y[0].total(); ++i) y[0].ptr<float>()[i] = x[0].ptr<float>()[i] + lent;
  }
};
ANYLAYER_REGISTER_LAYER(Lent, Lent)
"""


@pytest.mark.one_per()
@pytest.mark.parametrize("before", ["First", "ReLU"])
def test_the_engine_lends_its_threads_to_every_library(
    tmp_path: Path, built: Built, probe: Path, engine: str, before: str
) -> None:
    (tmp_path / "lent.cpp").write_text(LENT)
    path = tmp_path / "n.prototxt"
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }\n'
        f'layer {{ name: "a" type: "{before}" bottom: "data" top: "a" }}\n'
        'layer { name: "b" type: "Lent" bottom: "a" top: "b" }\n'
    )
    layers = [probe, built("lent", tmp_path / "lent.cpp")]
    model = anylayer.read(path, layers=layers).compile(engine, threads=2)
    first = model(X)["b"]  # the first call is checked, and comes from Python
    for _ in range(2):
        np.testing.assert_array_equal(model(X)["b"], first + 1)


ELEMENTWISE = """
#include <anylayer/layer.hpp>
using namespace anylayer;
struct Elementwise : Layer {
  using Layer::Layer;
  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    Configuration one = Configuration::plain(inputs.size(), outputs, DataType::float32, Layout::any);
    one.elementwise = true;
    return {one};
  }
};
// Adds its inputs. An error tells the last size of the arrays that forward gets.
struct Sum : Elementwise {
  using Elementwise::Elementwise;
  void forward(InputArrays x, OutputArrays y, OutputArrays) override {
    for (std::size_t i = 0; i < y[0].total(); ++i) {
      float sum = 0;
      for (const Tensor& each : x) sum += each.ptr<float>()[i];
      if (sum > 1e6f) ANYLAYER_THROW << "the last size is " << y[0].shape().back();
      y[0].ptr<float>()[i] = sum;
    }
  }
};
// Adds the last size of its array, so it is not elementwise.
struct LastSize : Elementwise {
  using Elementwise::Elementwise;
  void forward(InputArrays x, OutputArrays y, OutputArrays) override {
    for (std::size_t i = 0; i < y[0].total(); ++i)
      y[0].ptr<float>()[i] = x[0].ptr<float>()[i] + static_cast<float>(y[0].shape().back());
  }
};
ANYLAYER_REGISTER_LAYER(Sum, Sum)
ANYLAYER_REGISTER_LAYER(LastSize, LastSize)
"""


@pytest.fixture(scope="module")
def elementwise(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose layers state that they are elementwise."""
    source = tmp_path_factory.mktemp("elementwise") / "elementwise.cpp"
    source.write_text(ELEMENTWISE)
    return built("elementwise", source)


def after(folder: Path, first: str, layer: str, library: Path, engine: str) -> anylayer.Model:
    """Return a model of a layer of this type, a ReLU, and a native layer over the results of both."""
    path = folder / "n.prototxt"
    param = "convolution_param { num_output: 3 kernel_size: 1 }" if first == "Convolution" else ""
    path.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }\n'
        f'layer {{ name: "a" type: "{first}" bottom: "data" top: "a" {param} }}\n'
        'layer { name: "b" type: "ReLU" bottom: "a" top: "b" }\n'
        f'layer {{ name: "c" type: "{layer}" bottom: "a" bottom: "b" top: "c" }}\n'
    )
    return anylayer.read(path, layers=[library]).fill(0).compile(engine)


@pytest.mark.one_per()
@pytest.mark.parametrize(
    ("first", "seen"),
    [("Convolution", {"openvino": 3, "onnxruntime": 2}), ("AbsVal", dict.fromkeys(EMBEDDING, 2))],
)
def test_openvino_passes_channels_last_to_elementwise_layer_after_convolution(
    tmp_path: Path, elementwise: Path, engine: str, first: str, seen: dict[str, int]
) -> None:
    model = after(tmp_path, first, "Sum", elementwise, engine)
    want = after(tmp_path, first, "Sum", elementwise, "numpy")(X)["c"]
    for _ in range(2):  # the first call is checked
        np.testing.assert_allclose(model(X)["c"], want, 1e-5, 1e-5)
    with pytest.raises(LayerError, match=f"the last size is {seen[engine]}"):
        model(X * 1e9)
    with pytest.raises(LayerError, match=f"the last size is {seen[engine]}"):
        model(X * -1e9)


def test_a_layer_that_is_not_elementwise_but_states_so_is_refused(tmp_path: Path, elementwise: Path) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    model = after(tmp_path, "Convolution", "LastSize", elementwise, "openvino")
    rule = r"'c' \(LastSize\): libelementwise.so: states that it is elementwise, but computes another output 0"
    for _ in range(2):
        with pytest.raises(LayerError, match=rule):
            model(X)


def test_an_elementwise_layer_needs_arrays_of_one_shape(tmp_path: Path, elementwise: Path) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'input: "a" input_shape { dim: 1 dim: 3 dim: 4 dim: 2 }\n'
        'input: "b" input_shape { dim: 1 dim: 3 dim: 1 dim: 1 }\n'
        'layer { name: "c" type: "Sum" bottom: "a" bottom: "b" top: "c" }\n'
    )
    rule = r"'c' \(Sum\): libelementwise.so: states that it is elementwise, and has arrays of the shapes"
    with pytest.raises(LayerError, match=rule):
        anylayer.read(path, layers=[elementwise]).compile("onnxruntime")


@pytest.mark.parametrize(("type_", "most"), [("Alone", 1), ("Together", 2)])
def test_only_reentrant_layers_run_in_several_threads(
    tmp_path: Path, probe: Path, engine: str, type_: str, most: int
) -> None:
    models = [net_of(tmp_path, type_, "", probe).compile(engine, threads=1) for _ in range(2)]
    for model in models:
        model(X)
    seen: list[float] = []

    def work(model: Any) -> None:
        seen.extend(float(model(X)["outy0"].max()) for _ in range(4))

    in_threads(work, models)
    assert max(seen) == most


def test_threads_share_a_model(tmp_path: Path, second: Path, engine: str) -> None:
    model = net_of(tmp_path, "Second", "", second).compile(engine)
    fine: list[bool] = []

    def work(k: int) -> None:
        x = X + k
        fine.extend(np.array_equal(model(x)["outy0"], x + 1) for _ in range(50))

    in_threads(work, range(4))
    assert fine == [True] * 200


def test_other_shapes_are_compiled_again(tmp_path: Path, second: Path, engine: str) -> None:
    model = net_of(tmp_path, "Second", "", second).compile(engine)
    for shape in ((1, 3, 4, 2), (2, 3, 5, 6), (1, 3, 4, 2)):
        x = np.full(shape, 2, np.float32)
        np.testing.assert_array_equal(model(x)["outy0"], x + 1)


def test_a_library_in_a_child_process_stays_between_graphs(tmp_path: Path, probe: Path, engine: str) -> None:
    path = net_of(tmp_path, "First", "", probe).network.source
    model = anylayer.read(path, layers=[probe], isolate=True).compile(engine)
    assert steps(model) == 3


def test_a_library_without_the_operator_stays_between_graphs(
    tmp_path: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = net_of(tmp_path, "Second", "", second)
    library: Any = net.kernels["Second"].library
    monkeypatch.setattr(library, "takes_turns", False)  # a library in C leaves it unset
    model = net.compile("onnxruntime")
    assert steps(model) == 3
    np.testing.assert_array_equal(model(X)["outy0"], X + 1)


def test_a_model_that_is_dropped_frees_its_layers(tmp_path: Path, probe: Path, engine: str) -> None:
    net = net_of(tmp_path, "First", "", probe)
    model = net.compile(engine)
    model(X)
    layer = weakref.ref(model.plan.steps[1].kernel)
    assert layer() is not None
    del model, net
    gc.collect()
    assert layer() is None
