"""The trained state of a generated PyTorch module becomes the weights file of the network again."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
import anylayer.caffe as caffe
from anylayer.errors import AnyLayerError
from anylayer.network import Array

pytestmark = pytest.mark.needs("torch", "safetensors")

KERAS = Path(__file__).parent / "data" / "keras"
NET = """name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "prelu" type: "PReLU" bottom: "conv" top: "conv" }
layer { name: "conv2" type: "Convolution" bottom: "conv" top: "conv2"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 group: 2 } }
layer { name: "bn2" type: "BatchNorm" bottom: "conv2" top: "conv2" }
layer { name: "scale2" type: "Scale" bottom: "conv2" top: "conv2" scale_param { bias_term: true } }
layer { name: "up" type: "Deconvolution" bottom: "conv2" top: "up"
  convolution_param { num_output: 2 kernel_size: 2 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "up" top: "fc" inner_product_param { num_output: 2 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""
OPENCV = """
import sys
import cv2, numpy as np
if not hasattr(cv2.dnn, "readNetFromCaffe"):
    sys.exit("no Caffe reader")
net = cv2.dnn.readNetFromCaffe("net.prototxt", "trained.caffemodel")
net.setInput(np.load("x.npy"))
np.save("y.npy", net.forward())
"""


def write_net(folder: Path, text: str = NET, factor: float = 2.0) -> None:
    """Write net.prototxt, and a net.caffemodel whose scales are 1 and shifts 0, as in a new network."""
    (folder / "net.prototxt").write_text(text)
    net = caffe.Net(str(folder / "net.prototxt"), caffe.TEST)
    random = np.random.default_rng(0)
    for name, blobs in net.params.items():
        for blob in blobs:
            blob.data[...] = random.standard_normal(blob.data.shape) * 0.3
        if name.startswith("bn"):
            blobs[1].data[...] = 1 + np.abs(blobs[1].data)
            blobs[2].data[...] = factor
        if name.startswith("scale"):
            blobs[0].data[...], blobs[1].data[...] = 1, 0
    net.save(str(folder / "net.caffemodel"))


def module_of(net: anylayer.Net, folder: Path) -> Any:
    """Return the module that is generated for a network."""
    net.generate("pytorch", folder, test=False, force=True)
    space: dict[str, Any] = {"__name__": "model", "__file__": str(folder / "model.py")}
    exec(compile((folder / "model.py").read_text(), "model.py", "exec"), space)
    return space["load"]()


def train(module: Any, *, all_layers: bool = False) -> None:
    """Train a classifier on generated data for a few steps. all_layers: in the mode for training."""
    import torch

    torch.manual_seed(0)
    x = torch.randn(32, 3, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long()
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    module.train(all_layers)
    losses = []
    for _ in range(10):
        loss = torch.nn.functional.nll_loss(torch.log(module(x) + 1e-9), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    module.eval()


def outputs_of(module: Any, *inputs: Array) -> list[Array]:
    import torch

    with torch.no_grad():
        results = module(*(torch.from_numpy(x) for x in inputs))
    return [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]


def save(module: Any, path: Path) -> Path:
    import torch

    torch.save(module.state_dict(), path)
    return path


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the small network in a folder with its files, which becomes the working directory."""
    monkeypatch.chdir(tmp_path)
    write_net(tmp_path)
    return module_of(anylayer.read("net.prototxt", "net.caffemodel"), tmp_path / "project")


def written(state: str | Path = "state.pt", **options: Any) -> Any:
    return anylayer.write_weights("net.prototxt", "net.caffemodel", state, "trained.caffemodel", **options)


# ----------------------------------------------------------------------------- Caffe


@pytest.mark.parametrize("all_layers", [False, True])
def test_trained_caffe_network_runs_in_opencv_4(small: Any, all_layers: bool) -> None:
    train(small, all_layers=all_layers)
    save(small, Path("state.pt"))
    result = written()
    assert (result.changed, result.total) == ((19, 19) if all_layers else (13, 19))
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    (want,) = outputs_of(small, x)
    found = anylayer.read("net.prototxt", "trained.caffemodel").compile("numpy")(x)["prob"]
    np.testing.assert_allclose(found, want, atol=1e-6)
    np.save("x.npy", x)
    python = os.environ.get("ANYLAYER_OPENCV4") or sys.executable
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run([python, "-c", OPENCV], capture_output=True, text=True, env=environment)
    if "no Caffe reader" in done.stderr or "No module named 'cv2'" in done.stderr:
        pytest.skip("OpenCV 4 is not installed")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load("y.npy").reshape(want.shape), want, atol=1e-6)


def test_only_changed_weights_differ_in_the_file(small: Any) -> None:
    small.fc.weight.data *= 2  # a number added to all would only make the softmax lose digits
    save(small, Path("state.pt"))
    result = written()
    assert result.changed == 1 and "fc" not in "".join(result.notes)
    old, new = (np.fromfile(name, np.uint8) for name in ("net.caffemodel", "trained.caffemodel"))
    weight = anylayer.read("net.prototxt", "net.caffemodel").network.nodes[-2].blobs[0]
    start = bytes(old).find(weight.tobytes())
    differ = np.flatnonzero(old != new)
    assert old.size == new.size and start <= differ.min() and differ.max() < start + weight.nbytes


def test_parameters_of_a_new_network_are_not_shared(small: Any) -> None:
    """The scales of both layers are 1 and their shifts 0, which neither vanish nor become one parameter."""
    values = {name: p.detach().numpy() for name, p in small.named_parameters()}
    for name in ("scale", "scale2"):
        np.testing.assert_allclose(values[f"{name}_scale"], 1, atol=1e-5)
        np.testing.assert_allclose(values[f"{name}_bias"], 0, atol=1e-5)


def test_untrained_state_gives_the_same_file(small: Any) -> None:
    save(small, Path("state.pt"))
    assert written().changed == 0
    assert Path("trained.caffemodel").read_bytes() == Path("net.caffemodel").read_bytes()


def test_batch_norm_without_samples_is_generated(tmp_path: Path) -> None:
    """A divisor of 0 makes Caffe's statistics 0, so it must not become another number."""
    write_net(tmp_path, factor=0.0)
    net = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    (found,) = outputs_of(module_of(net, tmp_path / "project"), x)
    np.testing.assert_allclose(found, net.compile("numpy")(x)["prob"], atol=1e-5)


SHARED = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 6 } } }
layer { name: "one" type: "InnerProduct" bottom: "data" top: "one" param { name: "w" } param { name: "b1" }
  inner_product_param { num_output: 6 } }
layer { name: "two" type: "InnerProduct" bottom: "one" top: "two" param { name: "w" } param { name: "b2" }
  inner_product_param { num_output: 6 } }
"""


def test_shared_weights_must_stay_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_net(tmp_path, SHARED)
    module = module_of(anylayer.read("net.prototxt", "net.caffemodel"), tmp_path / "project")
    module.one.weight.data += 0.5
    save(module, Path("state.pt"))
    with pytest.raises(AnyLayerError, match=r"'one\.weight' and 'two\.weight' are one weight .*different values"):
        written()
    module.two.weight = module.one.weight
    save(module, Path("state.pt"))
    written()
    weight = module.one.weight.detach().numpy()
    for node in anylayer.read("net.prototxt", "trained.caffemodel").network.nodes:
        np.testing.assert_array_equal(node.blobs[0], weight)


# ----------------------------------------------------------------------------- Keras


def disturbed(module: Any) -> None:
    import torch

    torch.manual_seed(0)
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data += 0.05 * torch.randn_like(parameter)


@pytest.mark.parametrize(
    "name",
    ["nested.keras", "nested.h5", "k2_nested.keras", "k2_nested.h5", "stacked_cells.keras", "steps.h5"],
)
def test_keras_file_gets_trained_weights(tmp_path: Path, name: str) -> None:
    import torch

    net = anylayer.read(KERAS / name)
    module = module_of(net, tmp_path / "project")
    disturbed(module)
    file = tmp_path / f"trained{Path(name).suffix}"
    done = anylayer.write_weights(KERAS / name, None, save(module, tmp_path / "state.pt"), file)
    assert 0 < done.changed <= done.total and file.stat().st_size > 0
    kinds = anylayer.read(file).inputs.values()
    random = np.random.default_rng(3)
    inputs = [random.random(k.shape, np.float32).astype(k.dtype) for k in kinds if k is not None]
    found = anylayer.read(file).compile("numpy")(dict(zip(net.inputs, inputs)))
    for want, got in zip(outputs_of(module, *inputs), found.values(), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5 * max(1, np.abs(want).max()))
    assert torch.isfinite(next(iter(module.parameters()))).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Keras' own code
def test_keras_runs_the_trained_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # they are read when Keras is imported
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    layers = keras.layers
    x = keras.Input((8, 8, 3))
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, activation="relu")(x))
    y = layers.Reshape((6, -1))(layers.PReLU()(layers.DepthwiseConv2D(3, padding="same")(y)))
    y = layers.GRU(3)(layers.Bidirectional(layers.LSTM(4, return_sequences=True))(y))
    keras.Model(x, layers.Dense(1)(y)).save(tmp_path / "net.keras")
    module = module_of(anylayer.read(tmp_path / "net.keras"), tmp_path / "project")
    disturbed(module)
    state = save(module, tmp_path / "state.pt")
    anylayer.write_weights(tmp_path / "net.keras", None, state, tmp_path / "trained.keras")
    data = np.random.default_rng(1).standard_normal((2, 8, 8, 3)).astype(np.float32)
    found = keras.saving.load_model(tmp_path / "trained.keras")(data).detach().numpy()
    np.testing.assert_allclose(found, outputs_of(module, data)[0], atol=1e-5)


def test_constants_of_a_recurrent_layer_are_not_trained(tmp_path: Path) -> None:
    """torch's LSTM has two biases, Keras' has one."""
    module = module_of(anylayer.read(KERAS / "steps.h5"), tmp_path / "project")
    assert not module.lstm.bias_hh_l0.requires_grad and module.lstm.bias_ih_l0.requires_grad
    module.lstm.bias_hh_l0.data += 1
    state = save(module, tmp_path / "state.pt")
    with pytest.raises(AnyLayerError, match=r"'lstm\.bias_hh_l0' has changed .* the file does not store it"):
        anylayer.write_weights(KERAS / "steps.h5", None, state, tmp_path / "trained.h5")
    assert not (tmp_path / "trained.h5").exists()


@pytest.mark.needs("h5py")
def test_compressed_weights_are_refused(tmp_path: Path) -> None:
    import h5py

    def copy(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            target.create_dataset(name, data=item[()], **({"compression": "gzip"} if item.ndim else {}))
            target[name].attrs.update(item.attrs)
        else:
            target.require_group(name).attrs.update(item.attrs)

    with h5py.File(KERAS / "steps.h5") as source, h5py.File(tmp_path / "net.h5", "w") as target:
        target.attrs.update(source.attrs)
        source.visititems(copy)
    module = module_of(anylayer.read(tmp_path / "net.h5"), tmp_path / "project")
    disturbed(module)
    state = save(module, tmp_path / "state.pt")
    with pytest.raises(AnyLayerError, match=r"blob \d of layer '.*' is not stored as plain float32 numbers"):
        anylayer.write_weights(tmp_path / "net.h5", None, state, tmp_path / "trained.h5")


# ----------------------------------------------------------------------------- refusals


def _without(state: dict[str, Any]) -> Any:
    del state["fc.bias"]
    return state


def _not_finite(state: dict[str, Any]) -> Any:
    state["conv.weight"] = state["conv.weight"] * float("nan")
    return state


def _other_shape(state: dict[str, Any]) -> Any:
    state["fc.weight"] = state["fc.weight"][:1]
    return state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without, r"the state lacks 'fc\.bias'; give the state of the module"),
        (_not_finite, r"'conv\.weight' holds NaN or infinity"),
        (_other_shape, r"'fc\.weight' has shape \(1, 512\) in the state, expected \(2, 512\)"),
        (lambda state: {f"module.{k}": v for k, v in state.items()}, r".*module\.module\.state_dict\(\)"),
        (lambda state: {**state, "more": state["fc.bias"]}, r"the module has no 'more'; give the state"),
        (lambda state: {k: v.int() for k, v in state.items()}, r"is int32 in the state, expected float32"),
        (lambda state: {"epoch": 3, "model": state}, r"save module\.state_dict\(\).*not a tensor: epoch, model"),
        (lambda state: [1, 2], r"the file holds a list"),
    ],
)
def test_state_of_another_module_is_refused(
    small: Any, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    import torch

    torch.save(change(dict(small.state_dict())), "state.pt")
    with pytest.raises(AnyLayerError, match=f"state.pt: .*{message}"):
        written()
    assert not Path("trained.caffemodel").exists()


class _Hostile:
    def __reduce__(self) -> Any:
        return Path("hacked").touch, ()


def test_a_state_never_runs_code(small: Any) -> None:
    import torch

    torch.save({"conv.weight": _Hostile()}, "state.pt")
    with pytest.raises(AnyLayerError, match="other Python objects than tensors, which could run code"):
        written()
    Path("state.pt").write_bytes(pickle.dumps(_Hostile()))
    with pytest.raises(AnyLayerError, match="could run code"):
        written()
    assert not Path("hacked").exists()


@pytest.mark.parametrize("content", [b"", b"something else", (1 << 40).to_bytes(8, "little") + b"{"])
def test_damaged_state_is_refused(small: Any, content: bytes) -> None:
    Path("state.pt").write_bytes(content)
    with pytest.raises(AnyLayerError, match=r"state\.pt: this is not"):
        written()


def test_output_must_be_another_file_of_the_same_format(small: Any) -> None:
    save(small, Path("state.pt"))
    files = "net.prototxt", "net.caffemodel", "state.pt"
    with pytest.raises(AnyLayerError, match=r"give a name with the suffix \.caffemodel"):
        anylayer.write_weights(*files, "trained.h5")
    with pytest.raises(AnyLayerError, match="give another name than the old file's"):
        anylayer.write_weights(*files, "net.caffemodel")
    with pytest.raises(AnyLayerError, match=r"net\.prototxt: it has no weights; name the network"):
        anylayer.write_weights("net.prototxt", None, "net.caffemodel", "trained.caffemodel")


def test_file_that_computes_something_else_does_not_appear(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.convert import write_back

    patch = write_back.patch

    def wrong(network: Any, file: Path, weights: Any) -> Array:
        return patch(network, file, {key: (stored, values * 0) for key, (stored, values) in weights.items()})

    monkeypatch.setattr(write_back, "patch", wrong)
    small.fc.weight.data += 1
    save(small, Path("state.pt"))
    with pytest.raises(AnyLayerError, match="the new file does not compute what the module does"):
        written()
    assert not Path("trained.caffemodel").exists()


def test_weights_of_other_formats_are_refused(small: Any) -> None:
    anylayer.read("net.prototxt", "net.caffemodel").write("net.onnx")
    with pytest.raises(AnyLayerError, match="only Caffe and Keras files take weights back"):
        anylayer.write_weights("net.onnx", None, save(small, Path("state.pt")), "trained.onnx")
