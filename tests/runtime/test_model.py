"""Compiling and running: engines, shapes, host calls, buffers, threads."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import EngineError, InputError, LayerError, UnknownLayers
from tests.engine_names import ALL, GENERAL
from tests.hostile.networks import SMALL, layer
from tests.threads import in_threads

NET = """
name: "n"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 4 } } }
layer { name: "a" type: "Power" bottom: "data" top: "a" power_param { scale: 2 } }
layer { name: "mine" type: "Mine" bottom: "a" top: "m" mine_param { add: 3 } }
layer { name: "z" type: "Power" bottom: "m" top: "z" power_param { shift: 1 } }
"""
TRACEABLE = """
import numpy as np
import anylayer

@anylayer.layer("Mine")
class Mine:
    def __init__(self, params, blobs):
        self.add = float(params["add"])
    def getMemoryShapes(self, inputs):
        return [inputs[0]]
    def forward(self, inputs):
        return [inputs[0] + np.float32(self.add)]
"""
HOST = TRACEABLE.replace(
    "return [inputs[0] + np.float32(self.add)]",
    "return [inputs[0] + np.float32(self.add if float(str(inputs[0].sum())) > 0 else -self.add)]",
)
X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


@pytest.fixture
def net(tmp_path: Path) -> Any:
    def read(layers: str | None = TRACEABLE, text: str = NET) -> anylayer.Net:
        (tmp_path / "net.prototxt").write_text(text)
        if layers is None:
            return anylayer.read(tmp_path / "net.prototxt")
        (tmp_path / "mine.py").write_text(layers)
        return anylayer.read(tmp_path / "net.prototxt", layers=[tmp_path / "mine.py"])

    return read


@pytest.mark.parametrize("engine", [*ALL, "auto"])
def test_user_layer_runs_on_every_engine(net: Any, engine: str) -> None:
    model = net().compile(engine=engine)
    assert np.array_equal(model({"data": X})["z"], X * 2 + 4)
    assert np.array_equal(model(X)["z"], X * 2 + 4)
    assert model.host_calls == []


@pytest.mark.needs("openvino")
def test_auto_measures_and_takes_the_fastest(net: Any) -> None:
    model = net().compile()
    assert {"onnxruntime", "openvino"} <= set(model.timings)
    assert model.engine == min(model.timings, key=model.timings.__getitem__)


def test_network_without_host_calls_is_one_step(net: Any) -> None:
    assert len(net().compile(engine="onnxruntime").plan.steps) == 1


@pytest.mark.parametrize("engine", GENERAL)
def test_untraceable_layer_becomes_a_host_call_with_a_reason(net: Any, engine: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"layer 'mine' \(Mine\) runs in Python: .*mine.py:12.*f-string"):
        model = net(HOST).compile(engine=engine)
    assert [(name, type_) for name, type_, _ in model.host_calls] == [("mine", "Mine")]
    assert len(model.plan.steps) == 3
    assert np.array_equal(model(X)["z"], X * 2 + 4)
    assert np.array_equal(model(-X)["z"], -X * 2 - 2)


def test_model_accepts_other_shapes_than_the_files(net: Any) -> None:
    model = net().compile(engine="onnxruntime")
    for shape in [(2, 2, 3, 4), (1, 5, 6), (7,)]:
        x = np.ones(shape, np.float32)
        assert np.array_equal(model(x)["z"], x * 2 + 4)
    assert str(model.inputs["data"]) == "float32[1, 2, 3, 4]"
    bigger = net().compile(engine="onnxruntime", shapes={"data": (1, 2, 8, 8)})
    assert str(bigger.outputs["z"]) == "float32[1, 2, 8, 8]"


def test_intermediate_blobs_can_be_outputs(net: Any) -> None:
    model = net().compile(engine="onnxruntime", outputs=["a", "z"])
    got = model(X)
    assert np.array_equal(got["a"], X * 2)
    with pytest.raises(InputError, match=r"net.prototxt: there is no blob 'zz'; did you mean 'z'\?"):
        net().compile(outputs=["zz"])


@pytest.mark.parametrize("engine", ALL)
def test_outputs_are_written_to_buffers(net: Any, engine: str) -> None:
    model = net().compile(engine=engine)
    out = np.empty((1, 2, 3, 4), np.float32)
    got = model({"data": X}, out={"z": out})
    assert got["z"] is out
    assert np.array_equal(out, X * 2 + 4)
    with pytest.raises(InputError, match=r"out\['z'\] must be a writable C-contiguous array"):
        model({"data": X}, out={"z": out.T})
    with pytest.raises(InputError, match="there is no output 'y'"):
        model({"data": X}, out={"y": out})
    wrong = r"out\['z'\] must be float32\[1, 2, 3, 4\], got "
    for buffer, got in (
        (np.empty((1, 2, 3, 5), np.float32), r"float32\[1, 2, 3, 5\]"),
        (out.astype("f8"), "float64"),
    ):
        with pytest.raises(InputError, match=wrong + got):
            model({"data": X}, out={"z": buffer})
    with pytest.raises(InputError, match=r"out\['z'\] must share no memory with an input"):
        model({"data": out}, out={"z": out})


@pytest.mark.parametrize("engine", ALL)
def test_output_of_dynamic_size_takes_no_buffer(net: Any, engine: str) -> None:
    counted = """
import numpy as np
import anylayer

@anylayer.layer("Mine")
class Mine:
    def __init__(self, params, blobs): pass
    def forward(self, inputs):
        x = inputs[0].reshape(-1)
        return [anylayer.ops.head(x, (x > 6).sum())]
"""
    model = net(counted, NET.split('layer { name: "z"')[0]).compile(engine=engine)
    assert model(X)["m"].shape == (20,)
    if engine != "numpy":
        assert str(model.outputs["m"]) == "float32[<=24]"
        with pytest.raises(InputError, match=r"the size of output 'm' \(float32\[<=24\]\) depends on data"):
            model({"data": X}, out={"m": np.empty(20, np.float32)})


def test_input_that_is_not_an_array_of_numbers_is_refused(net: Any) -> None:
    with pytest.raises(InputError, match="input 'data' must be an array of numbers: could not convert"):
        net().compile(engine="onnxruntime")({"data": "picture.png"})


def test_outputs_may_be_one_name(net: Any) -> None:
    assert list(net().compile(engine="onnxruntime", outputs="a")(X)) == ["a"]


def test_random_weights_follow_the_given_shapes(net: Any) -> None:
    text = NET.split("layer {", 2)
    dense = (
        'layer { name: "f" type: "InnerProduct" bottom: "data" top: "f" inner_product_param { num_output: 2 } }'
    )
    found = net(None, f"{text[0]}layer {{{text[1]}{dense}").fill(shapes={"data": (1, 2, 5, 5)})
    assert found.network.nodes[0].blobs[0].shape == (2, 50)
    unshaped = net(None, f'input: "data" {dense}')
    with pytest.raises(InputError, match=r"the shape of input 'data' is not .* Give shapes=\{'data': \(1, 3"):
        unshaped.fill()


@pytest.mark.parametrize("engine", ALL)
def test_results_belong_to_the_caller(net: Any, engine: str) -> None:
    model = net().compile(engine=engine)
    first = model(X)["z"]
    kept = first.copy()
    model(X * 5)
    assert np.array_equal(first, kept)
    first[...] = 0
    assert np.array_equal(model(X)["z"], kept)


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.filterwarnings("ignore:layer 'mine'")
def test_threads_can_share_a_model(net: Any, engine: str) -> None:
    model = net(HOST).compile(engine=engine)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(20):
            x = X + seed + i
            if not np.array_equal(model(x)["z"], x * 2 + 4):
                wrong.append(seed)

    in_threads(work, range(4))
    assert wrong == []


def test_weights_are_not_copied_for_onnx_runtime(tmp_path: Path) -> None:
    """A write into the array after compiling changes the answer: the session reads NumPy's memory."""
    text = (
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 64 } } }\n'
        'layer { name: "fc" type: "InnerProduct" bottom: "x" top: "y" '
        "inner_product_param { num_output: 32 bias_term: false } }"
    )
    (tmp_path / "n.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "n.prototxt")
    weights = np.ones((32, 64), np.float32)
    net.network.nodes[0].blobs = [weights]
    model = net.compile(engine="onnxruntime")
    x = np.ones((1, 64), np.float32)
    assert model(x)["y"][0, 0] == 64
    weights[...] = 0
    assert model(x)["y"][0, 0] in (0, 64)  # 64 where the engine packs this weight for its kernel


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("engine", ALL)
def test_rewrite_in_place_does_not_change_what_others_have_read(tmp_path: Path, engine: str, split: bool) -> None:
    """Caffe refuses this network: its Split layer shares the memory of the blob with all consumers."""
    lines = [NET.splitlines()[2], NET.splitlines()[3]]
    if split:
        lines.append('layer { name: "s" type: "Split" bottom: "a" top: "x" top: "other" }')
    x, other = ("x", "other") if split else ("a", "a")
    lines += [
        f'layer {{ name: "before" type: "Power" bottom: "{other}" top: "before" power_param {{ shift: 1 }} }}',
        f'layer {{ name: "rewrite" type: "Power" bottom: "{x}" top: "{x}" power_param {{ scale: 10 }} }}',
        f'layer {{ name: "after" type: "Power" bottom: "{x}" top: "after" power_param {{ shift: 1 }} }}',
    ]
    (tmp_path / "net.prototxt").write_text("\n".join(lines))
    got = anylayer.read(tmp_path / "net.prototxt").compile(engine, outputs=["before", "after"])(X)
    np.testing.assert_array_equal(got["before"], 2 * X + 1)
    np.testing.assert_array_equal(got["after"], 20 * X + 1)


def test_all_unknown_layers_are_listed_in_one_error(net: Any) -> None:
    text = NET + 'layer { name: "q" type: "Poling" bottom: "z" top: "q" }'
    pattern = (
        r"net.prototxt: 2 unknown layer types: 'Mine' \(layer 'mine'\).*; 'Poling' \(layer 'q'\); "
        r"did you mean 'Pooling'\? To define them: anylayer stub"
    )
    with pytest.raises(UnknownLayers, match=pattern) as caught:
        net(None, text).compile()
    assert caught.value.types == ["Mine", "Poling"]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m: m({}), InputError, "input 'data' is missing; the network's inputs: data"),
        (lambda m: m({"data": X, "date": X}), InputError, "has no input 'date'; did you mean 'data'"),
    ],
)
def test_input_names_are_checked(net: Any, call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call(net().compile(engine="onnxruntime"))


def test_bad_arguments_of_compile_are_refused(net: Any) -> None:
    with pytest.raises(EngineError, match="there is no engine 'onnxrutime'; did you mean 'onnxruntime'"):
        net().compile(engine="onnxrutime")
    with pytest.raises(InputError, match="the network has no input 'date'; did you mean 'data'"):
        net().compile(shapes={"date": (1, 2)})
    with pytest.raises(InputError, match="input 'data': a shape must be integers of 0 or more, got"):
        net().compile(shapes={"data": (1, -2)})
    with pytest.raises(InputError, match=r"threads must be 1 to [0-9]+, got 50000"):
        net().compile(threads=50000)
    with pytest.raises(InputError, match=r"threads must be 1 to [0-9]+, got 0"):
        net().compile(threads=0)


def test_output_that_differs_from_getmemoryshapes_is_refused(net: Any) -> None:
    lying = TRACEABLE.replace("return [inputs[0]]", "return [[9, 9]]", 1)
    with pytest.raises(LayerError, match=r"'mine' \(Mine\): output 0 has shape \(1, 2, 3, 4\), getMemoryShapes"):
        net(lying).compile(engine="onnxruntime")
    with pytest.raises(LayerError, match="getMemoryShapes declares"):
        net(lying).compile(engine="numpy")(X)


def test_exception_in_a_user_layer_names_its_line(net: Any) -> None:
    broken = TRACEABLE.replace("return [inputs[0] + np", "return [inputs[7] + np")
    with pytest.raises(LayerError, match=r"layer 'mine' \(Mine\): forward raises IndexError: .*mine.py:12"):
        net(broken).compile(engine="numpy")(X)
    missing = TRACEABLE.replace('params["add"]', 'params["ad"]')
    with pytest.raises(LayerError, match=r"Mine raises KeyError: 'ad' .*mine.py:8"):
        net(missing).compile(engine="onnxruntime")


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_layer_may_write_to_its_input(net: Any, engine: str) -> None:
    text = NET + 'layer { name: "q" type: "Power" bottom: "a" top: "q" }'
    writing = TRACEABLE.replace(
        "return [inputs[0] + np.float32(self.add)]",
        "x = inputs[0]\n        x += np.float32(self.add)\n        return [x]",
    )
    got = net(writing, text).compile(engine=engine)(X)
    assert np.array_equal(got["z"], X * 2 + 4)
    assert np.array_equal(got["q"], X * 2)


def test_network_without_weights_is_refused(tmp_path: Path) -> None:
    text = (
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 5 dim: 5 } } }\n'
        'layer { name: "c" type: "Convolution" bottom: "x" top: "y" '
        'convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }'
    )
    (tmp_path / "n.prototxt").write_text(text)
    with pytest.raises(LayerError, match=r"n.prototxt:2: layer 'c' \(Convolution\): its weights are not given"):
        anylayer.read(tmp_path / "n.prototxt").compile(engine="onnxruntime")
    filled = anylayer.read(tmp_path / "n.prototxt").fill(seed=1).compile(engine="onnxruntime")
    assert filled(np.ones((1, 2, 5, 5), np.float32))["y"].std() > 0


def test_precision_can_be_chosen(net: Any) -> None:
    low = net().compile(engine="openvino", precision="bfloat16")
    assert np.allclose(low(X)["z"], X * 2 + 4, rtol=1e-2)
    with pytest.raises(EngineError, match="engine 'onnxruntime' computes in float32, got 'bfloat16'"):
        net().compile(engine="onnxruntime", precision="bfloat16")
    with pytest.raises(EngineError, match="engine 'numpy' computes in float32 only"):
        net().compile(engine="numpy", precision="float16")


def test_unknown_dialect_is_refused(net: Any, tmp_path: Path) -> None:
    net()
    with pytest.raises(InputError, match="there is no dialect 'bvcl'; did you mean 'bvlc'"):
        anylayer.read(tmp_path / "net.prototxt", dialect="bvcl")


def test_array_with_channels_at_the_other_end_gets_a_warning(net: Any) -> None:
    text = (
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } } '
        'layer { name: "r" type: "ReLU" bottom: "x" top: "y" }'
    )
    model = net(None, text).compile("onnxruntime")
    rule = r"input 'x' is \(N, C, H, W\) = \[1, 3, 8, 8\] in the file, the array \[1, 9, 9, 3\] seems to have its"
    with pytest.warns(UserWarning, match=rule):
        model(np.zeros((1, 9, 9, 3), np.float32))
    model(np.zeros((1, 3, 9, 9), np.float32))
    model(np.zeros((1, 9, 9, 9), np.float32))


def test_error_of_an_engine_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopping:
        def __call__(self, inputs: Any, out: Any) -> Any:
            raise EngineError("engine 'x' failed: no")

    (tmp_path / "net.prototxt").write_text(SMALL + layer("ReLU"))
    net = anylayer.read(tmp_path / "net.prototxt")
    engine = SimpleNamespace(compile=lambda *_: Stopping())
    monkeypatch.setattr("anylayer.runtime.run.load_engine", lambda name: engine)
    with pytest.raises(EngineError, match=r"^.*net\.prototxt: engine 'x' failed: no$"):
        net.compile("onnxruntime")(np.zeros((1, 3, 8, 8), np.float32))

    def refusing(*_: Any) -> Any:
        raise EngineError("engine 'x' refuses the graph: no")

    engine.compile = refusing
    with pytest.raises(EngineError, match=r"^.*net\.prototxt: engine 'x' refuses the graph: no$"):
        net.compile("onnxruntime")


def test_least_recently_used_program_is_dropped(net: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anylayer.runtime.model.SHAPES_KEPT", 2)
    model = net().compile(engine="onnxruntime")
    compiled = []
    compile_ = model._compile
    monkeypatch.setattr(model, "_compile", lambda key: compiled.append(key) or compile_(key))
    for rows in (2, 3, 2, 4, 2):  # 3 is dropped for 4
        model(np.ones((rows, 4), np.float32))
    assert [key[0][0][0] for key in compiled] == [2, 3, 4]
