"""Layers of type "Python": caffe.Layer with setup, reshape and forward, traced or called."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
import anylayer.caffe as caffe
from anylayer.errors import LayerError
from tests.layers.harness import noise

LAYERS = '''
import caffe
import numpy as np


class Scale(caffe.Layer):
    """Multiply by the number in param_str."""

    def setup(self, bottom, top):
        if len(bottom) != 1:
            raise ValueError("Scale takes one bottom")
        self.factor = float(self.param_str)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.factor * bottom[0].data


class Named(Scale):
    """Keep attributes under names that anylayer might use itself."""

    def setup(self, bottom, top):
        self._phase, self._blobs, self._made = str(self.phase), "a text", None

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data * (2 if str(self.phase) == self._phase == "TEST" else 3)


class Count(Scale):
    """Multiply by the number of calls."""

    def forward(self, bottom, top):
        self.calls = getattr(self, "calls", 0) + 1
        top[0].data[...] = self.calls * bottom[0].data


class Noise(Scale):
    """Add random values."""

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data + np.random.random(bottom[0].shape)


class Counter(caffe.Layer):
    """Give the numbers from 0 on, three at a time."""

    def setup(self, bottom, top):
        top[0].reshape(1, 3)
        self.next = 0

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        top[0].data[...] = np.arange(self.next, self.next + 3)
        self.next += 3


class Positive(caffe.Layer):
    """Give the rows whose first value is positive, and their number: a shape that depends on data."""

    def setup(self, bottom, top):
        top[0].reshape(1, bottom[0].shape[1])
        top[1].reshape(1)

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        rows = bottom[0].data[bottom[0].data[:, 0] > 0]
        top[0].reshape(*rows.shape)
        top[0].data[...] = rows
        top[1].data[...] = len(rows)


class Weighted(caffe.Layer):
    """Add a weight of the layer."""

    def setup(self, bottom, top):
        self.blobs.add_blob(bottom[0].shape[1])
        self.blobs[0].data[...] = 1

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data + self.blobs[0].data


class Phase(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[()] = self.phase + (str(self.phase) == "TEST")


class Failing(Scale):
    def forward(self, bottom, top):
        raise KeyError("no such key")


class Unready(Scale):
    def setup(self, bottom, top):
        raise RuntimeError("not ready")


class Total(caffe.Layer):
    """Write a sum into a top that only setup gives a shape."""

    def setup(self, bottom, top):
        top[0].reshape(1, 2)

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data.sum()


class TotalInPython(Total):
    def forward(self, bottom, top):
        top[0].data[...] = float(str(bottom[0].data.sum()))


class NotALayer:
    pass
'''

INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 } } }\n'
IP = """layer { name: "ip" type: "InnerProduct" bottom: "%s" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of a module with LAYERS on sys.path."""
    name = f"layers_of_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(LAYERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {n: m for n, m in sys.modules.items() if n == "caffe" or n.startswith("caffe.")}
    yield name
    for key in [n for n in sys.modules if n == name or n == "caffe" or n.startswith("caffe.")]:
        if key not in before:
            del sys.modules[key]


def python(module: str, layer: str, bottoms: str = "data", tops: str = "top", param_str: str = "2") -> str:
    """Return a layer of type Python as a prototxt."""
    ends = "".join(f' bottom: "{b}"' for b in bottoms.split()) + "".join(f' top: "{t}"' for t in tops.split())
    return (
        f'layer {{ name: "{layer.lower()}" type: "Python"{ends} python_param {{ module: "{module}" '
        f'layer: "{layer}" param_str: "{param_str}" }} }}\n'
    )


def made(tmp_path: Path, text: str, *args: Any, **options: Any) -> caffe.Net:
    (tmp_path / "net.prototxt").write_text(text)
    return caffe.Net(tmp_path / "net.prototxt", *args, **{"engine": "onnxruntime", **options})


def is_traced(net: caffe.Net, name: str) -> bool:
    return next(part for part in net.assembly.parts if part.name == name).traced is not None


def test_layer_that_can_be_traced_is_part_of_the_compiled_network(tmp_path: Path, module: str) -> None:
    net = made(tmp_path, INPUT + python(module, "Scale") + IP % "top")
    assert is_traced(net, "scale")
    x = noise(4, 3)
    w, b = (blob.data for blob in net.params["ip"])
    assert np.allclose(net.forward(data=x)["ip"], 2 * x @ w.T + b, atol=1e-5)
    assert np.array_equal(net.blobs["top"].data, 2 * x)
    written = net.write(tmp_path / "net.onnx")
    assert written is not None
    onnx = anylayer.read(tmp_path / "net.onnx").compile("onnxruntime")({"data": x})
    assert np.allclose(onnx["ip"], 2 * x @ w.T + b, atol=1e-5)


def test_layer_that_a_script_accesses_runs_in_python(tmp_path: Path, module: str) -> None:
    net = made(tmp_path, INPUT + python(module, "Scale") + IP % "top")
    x = noise(4, 3)
    net.forward(data=x)
    layer = net.layers[1]
    assert not is_traced(net, "scale")
    assert type(layer).__name__ == "Scale" and layer.type == "Python"
    layer.factor = 5
    net.forward()
    assert np.array_equal(net.blobs["top"].data, 5 * x)


@pytest.mark.parametrize("layer", ["Count", "Noise", "Weighted"])
def test_layer_with_state_is_called(tmp_path: Path, module: str, layer: str) -> None:
    net = made(tmp_path, INPUT + python(module, layer))
    assert not is_traced(net, layer.lower())
    x = noise(4, 3)
    first, second = net.forward(data=x)["top"].copy(), net.forward(data=x)["top"].copy()
    if layer == "Count":
        assert np.array_equal(first, x) and np.array_equal(second, 2 * x)
    elif layer == "Noise":
        assert not np.array_equal(first, second) and np.all(first >= x)
    else:
        assert np.array_equal(first, x + 1) and np.array_equal(second, x + 1)


def test_intermediate_read_does_not_call_a_layer_again(tmp_path: Path, module: str) -> None:
    relu = 'layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }\n'
    net = made(tmp_path, INPUT + relu + python(module, "Count", "relu") + IP % "top")
    x = noise(4, 3)
    net.forward(data=x)
    assert np.array_equal(net.blobs["relu"].data, np.maximum(x, 0))
    net.forward()
    assert np.array_equal(net.blobs["top"].data, 2 * np.maximum(x, 0))


def test_layer_without_bottoms_is_called_in_each_run(tmp_path: Path, module: str) -> None:
    net = made(tmp_path, python(module, "Counter", "", "data") + IP % "data")
    w, b = (blob.data for blob in net.params["ip"])
    for start in (0, 3, 6):
        got = net.forward()["ip"]
        assert np.allclose(got, np.arange(start, start + 3) @ w.T + b, atol=1e-4)
    net.layers[0].next = 0
    net.forward()
    assert net.blobs["data"].data.tolist() == [[0, 1, 2]]


def test_shape_that_depends_on_data_is_passed_to_later_layers(tmp_path: Path, module: str) -> None:
    net = made(tmp_path, INPUT + python(module, "Positive", "data", "top count") + IP % "top")
    w, b = (blob.data for blob in net.params["ip"])
    for seed in range(4):
        x = noise(4, 3, seed=seed)
        found = net.forward(data=x)
        rows = x[x[:, 0] > 0]
        assert np.allclose(found["ip"], rows @ w.T + b, atol=1e-5)
        assert found["count"].tolist() == [len(rows)]
        assert net.blobs["top"].data.shape == rows.shape


def test_weights_of_a_python_layer_are_saved_copied_and_shared(tmp_path: Path, module: str) -> None:
    text = INPUT + python(module, "Weighted")
    net, other = made(tmp_path, text), made(tmp_path, text)
    net.params["weighted"][0].data[...] = [1, 2, 3]
    net.save(tmp_path / "net.caffemodel")
    other.copy_from(tmp_path / "net.caffemodel")
    x = noise(4, 3)
    assert np.array_equal(other.forward(data=x)["top"], x + np.float32([1, 2, 3]))
    again = made(tmp_path, text, str(tmp_path / "net.caffemodel"), caffe.TEST)
    assert [blob.data.tolist() for blob in again.layers[1].blobs] == [[1, 2, 3]]
    assert np.array_equal(again.compile("numpy")({"data": x})["top"], x + np.float32([1, 2, 3]))
    with pytest.raises(
        LayerError, match=r"blob 0 has shape \(3,\) in the weights file, and \(5,\) in the layer's setup"
    ):
        made(tmp_path, text.replace("dim: 3", "dim: 5"), str(tmp_path / "net.caffemodel"), caffe.TEST)
    other.share_with(net)
    net.layers[1].blobs[0].data[...] = 7
    assert np.array_equal(other.forward(data=x)["top"], x + 7)


@pytest.mark.parametrize("phase", [caffe.TRAIN, caffe.TEST])
def test_layer_knows_its_phase(tmp_path: Path, module: str, phase: int) -> None:
    net = made(tmp_path, python(module, "Phase", "", "phase"), phase)
    assert net.forward()["phase"] == 2 * phase


def test_attributes_of_a_layer_do_not_collide_with_ours(tmp_path: Path, module: str) -> None:
    net, x = made(tmp_path, INPUT + python(module, "Named"), caffe.TEST), noise(4, 3)
    assert is_traced(net, "named") and np.array_equal(net.forward(data=x)["top"], 2 * x)
    assert net.compile("onnxruntime").host_calls == []
    assert str(net.inspect()).count("Named")


def test_reshape_of_an_input_reaches_python_layers(tmp_path: Path, module: str) -> None:
    net = made(tmp_path, INPUT + python(module, "Count") + python(module, "Scale", "top", "end"))
    net.blobs["data"].reshape(2, 2, 2)
    net.reshape()
    assert net.blobs["end"].data.shape == (2, 2, 2)
    x = noise(2, 2, 2)
    assert np.array_equal(net.forward(data=x)["end"], 2 * x)


def test_exception_of_a_layer_keeps_its_type_and_names_its_place(tmp_path: Path, module: str) -> None:
    with pytest.raises(RuntimeError, match="not ready") as error:
        made(tmp_path, INPUT + python(module, "Unready"))
    assert error.value.__notes__ == [f"{tmp_path / 'net.prototxt'}:2: layer 'unready' (Unready)"]
    net = made(tmp_path, INPUT + python(module, "Failing"))
    with pytest.raises(KeyError, match="no such key"):
        net.forward()
    with pytest.raises(ValueError, match="Scale takes one bottom"):
        made(tmp_path, INPUT + python(module, "Scale", "data data"))
    with pytest.raises(ValueError, match="could not convert string to float"):
        made(tmp_path, INPUT + python(module, "Scale", param_str="two"))


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        ("Missing", r"layer 'missing' \(Missing\): module '{module}' has no class 'Missing'"),
        ("NotALayer", r"{module}.NotALayer must be a subclass of caffe.Layer \(import anylayer.caffe as caffe\)"),
        ("a.b", "python_param must name a module and a class, got module '{module}', layer 'a.b'"),
    ],
)  # fmt: skip
def test_class_that_is_not_a_layer_is_refused(tmp_path: Path, module: str, layer: str, text: str) -> None:
    with pytest.raises(LayerError, match=text.replace("{module}", module)):
        made(tmp_path, INPUT + python(module, layer))


def test_module_is_never_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside.py").write_text("raise SystemExit('executed')")
    (tmp_path / "inside").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "inside"))
    for layer in ("ProposalLayer", "Gone"):
        with pytest.raises(LayerError, match=r"the class ProposalLayer of module|python_param must name a module"):
            net = made(
                tmp_path, INPUT + python("../outside.x", layer, "data data data", param_str="'feat_stride': 2")
            )
            net.forward()


def test_module_that_is_not_found_is_refused_with_a_remedy(tmp_path: Path) -> None:
    rule = r"layer 'gone' \(Gone\): there is no module 'no_such_module'. Add its folder to sys.path, or give"
    with pytest.raises(LayerError, match=rule):
        made(tmp_path, INPUT + python("no_such_module", "Gone"))


def test_given_class_replaces_the_module(tmp_path: Path) -> None:
    class Gone(caffe.Layer):
        def reshape(self, bottom: Any, top: Any) -> None:
            top[0].reshape(*bottom[0].shape)

        def forward(self, bottom: Any, top: Any) -> None:
            top[0].data[...] = -bottom[0].data

    net = made(tmp_path, INPUT + python("no_such_module", "Gone"), layers=[("Gone", Gone)])
    x = noise(4, 3)
    assert np.array_equal(net.forward(data=x)["top"], -x)


def test_built_in_layer_is_used_where_its_module_is_absent(tmp_path: Path) -> None:
    text = """
input: "scores" input_shape { dim: 1 dim: 18 dim: 4 dim: 4 }
input: "deltas" input_shape { dim: 1 dim: 36 dim: 4 dim: 4 }
input: "info" input_shape { dim: 1 dim: 3 }
"""
    text += python("rpn.proposal_layer", "ProposalLayer", "scores deltas info", "rois", "'feat_stride': 16")
    with pytest.warns(UserWarning, match="takes py-faster-rcnn.s defaults min_size=16"):
        net = made(tmp_path, text)
    rois = net.forward(
        scores=noise(1, 18, 4, 4), deltas=noise(1, 36, 4, 4, scale=0.1), info=np.float32([[64, 64, 1]])
    )["rois"]
    assert rois.shape[1] == 5 and 0 < len(rois) <= 300
    assert rois.min() >= 0 and rois.max() <= 63


def test_install_makes_caffe_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n == "caffe" or n.startswith("caffe.")]:
        monkeypatch.delitem(sys.modules, name)
    caffe.install()
    names: dict[str, Any] = {}
    program = """
        import caffe, caffe.io
        from caffe import layers as L
        from caffe.proto import caffe_pb2
        from caffe.coord_map import crop
        """
    exec(textwrap.dedent(program), names)
    assert names["caffe"] is caffe
    assert names["caffe_pb2"] is caffe.proto.caffe_pb2
    assert names["L"] is caffe.layers
    for name in [n for n in sys.modules if n == "caffe" or n.startswith("caffe.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.filterwarnings("ignore:.*runs in Python")
@pytest.mark.parametrize("layer", ["Total", "TotalInPython"])
def test_top_keeps_the_shape_of_setup_in_a_compiled_network(tmp_path: Path, module: str, layer: str) -> None:
    net = made(tmp_path, INPUT + python(module, layer), caffe.TEST)
    model = net.compile(engine="onnxruntime")
    for run in (net.forward, lambda **x: model(x)):
        np.testing.assert_array_equal(run(data=np.ones((4, 3), np.float32))["top"], [[12, 12]])
