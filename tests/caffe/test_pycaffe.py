"""anylayer.caffe.Net runs as pycaffe's Net does: blobs, ranges of layers, weights that are written in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer.caffe as caffe
from anylayer.errors import AnyLayerError, FileError, InputError, UnknownLayers
from tests.layers.harness import noise

NET = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {
  num_output: 4 kernel_size: 3 weight_filler { type: "gaussian" std: 0.5 } bias_filler { value: 0.25 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 5
  weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
layer { name: "quiet" type: "Silence" bottom: "prob" }
"""


def made(tmp_path: Path, text: str = NET, *args: Any, **options: Any) -> caffe.Net:
    (tmp_path / "net.prototxt").write_text(text)
    return caffe.Net(tmp_path / "net.prototxt", *args, **{"engine": "onnxruntime", **options})


def convolved(net: caffe.Net, x: Any) -> Any:
    """Return blob 'conv' before the ReLU, computed by NumPy."""
    w, b = (blob.data for blob in net.params["conv"])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("oikl,nihwkl->nohw", w, windows) + b[:, None, None]


def test_names_are_those_of_the_file(tmp_path: Path) -> None:
    net = made(tmp_path)
    assert net._layer_names == ["data", "conv", "relu", "ip", "prob", "quiet"]
    assert [layer.type for layer in net.layers] == [
        "Input", "Convolution", "ReLU", "InnerProduct", "Softmax", "Silence"
    ]  # fmt: skip
    assert list(net.layer_dict) == net._layer_names
    assert list(net.blobs) == net._blob_names == ["data", "conv", "ip", "prob"]
    assert (net.inputs, net.outputs) == (["data"], [])
    assert net.bottom_names["relu"] == net.top_names["relu"] == ["conv"]
    assert net.top_names["quiet"] == []
    assert [len(layer.blobs) for layer in net.layers] == [0, 2, 0, 2, 0, 0]
    assert net.layers[-1].type == "Silence"
    assert [layer.type for layer in net.layers[1:3]] == ["Convolution", "ReLU"]


def test_blobs_have_shapes_before_the_first_run(tmp_path: Path) -> None:
    net = made(tmp_path)
    assert {name: blob.data.shape for name, blob in net.blobs.items()} == {
        "data": (2, 3, 6, 6), "conv": (2, 4, 4, 4), "ip": (2, 5), "prob": (2, 5)
    }  # fmt: skip
    conv, ip = net.blobs["conv"], net.blobs["ip"]
    assert (conv.num, conv.channels, conv.height, conv.width, conv.count) == (2, 4, 4, 4, 128)
    assert (ip.num, ip.channels, ip.height, ip.width) == (2, 5, 1, 1)
    with pytest.raises(AttributeError, match="has no setter"):
        ip.num = 1
    assert ip.diff.shape == (2, 5) and not ip.diff.any()
    with pytest.raises(InputError, match=r"data cannot be replaced; write into it: blob\.data\[\.\.\.\] = array"):
        ip.data = 3
    with pytest.raises(
        InputError, match=r"sizes of blobs of at most 4 axes, this one has shape \(1, 2, 3, 4, 5\)"
    ):
        _ = caffe.Blob(np.zeros((1, 2, 3, 4, 5), np.float32)).num


def test_intermediate_blobs_are_computed_when_read(tmp_path: Path) -> None:
    net = made(tmp_path, NET.replace('layer { name: "quiet" type: "Silence" bottom: "prob" }', ""))
    x = noise(2, 3, 6, 6)
    prob = net.forward(data=x)["prob"]
    want = np.maximum(convolved(net, x), 0)
    assert np.allclose(net.blobs["conv"].data, want, atol=1e-5)
    ip = want.reshape(2, -1) @ net.params["ip"][0].data.T
    assert np.allclose(net.blobs["ip"].data, ip, atol=1e-5)
    e = np.exp(ip - ip.max(1, keepdims=True))
    assert np.allclose(prob, e / e.sum(1, keepdims=True), atol=1e-5)


def test_intermediate_blobs_are_those_of_the_last_run(tmp_path: Path) -> None:
    net = made(tmp_path)
    x = noise(2, 3, 6, 6)
    net.forward(data=x)
    net.blobs["data"].data[...] = 7
    assert np.allclose(net.blobs["conv"].data, np.maximum(convolved(net, x), 0), atol=1e-5)


def test_held_array_gets_the_values_of_the_next_run(tmp_path: Path) -> None:
    net = made(tmp_path)
    first, second = noise(2, 3, 6, 6), noise(2, 3, 6, 6, seed=1)
    net.forward(data=first)
    held = net.blobs["conv"].data[0]
    net.forward(data=second)
    assert np.allclose(held, np.maximum(convolved(net, second), 0)[0], atol=1e-5)


def test_array_that_the_caller_holds_is_written_by_each_run(tmp_path: Path) -> None:
    net = made(tmp_path)
    held = net.blobs["conv"].data
    net.blobs["data"].data[...] = first = noise(2, 3, 6, 6)
    net.forward()
    assert np.allclose(held, np.maximum(convolved(net, first), 0), atol=1e-5)
    net.blobs["data"].data[...] = second = noise(2, 3, 6, 6, seed=1)
    net.forward(end="ip")
    assert np.allclose(held, np.maximum(convolved(net, second), 0), atol=1e-5)


def test_forward_of_a_range_reads_and_writes_blobs(tmp_path: Path) -> None:
    net = made(tmp_path)
    x = noise(2, 3, 6, 6)
    net.blobs["data"].data[...] = x
    found = net.forward(end="conv")
    assert list(found) == ["conv"]
    assert np.allclose(found["conv"], convolved(net, x), atol=1e-5)
    net.blobs["conv"].data[...] = y = noise(2, 4, 4, 4, seed=2)
    found = net.forward(start="relu", end="ip")
    assert np.allclose(found["ip"], np.maximum(y, 0).reshape(2, -1) @ net.params["ip"][0].data.T, atol=1e-5)
    assert np.allclose(net.blobs["conv"].data, np.maximum(y, 0))
    net.forward()
    assert np.allclose(net.blobs["conv"].data, np.maximum(convolved(net, x), 0), atol=1e-5)
    with pytest.raises(InputError, match=r"there is no layer 'con'; did you mean 'conv'\?; there are: data, conv"):
        net.forward(start="con")


def test_forward_returns_further_blobs(tmp_path: Path) -> None:
    net = made(tmp_path)
    x = noise(2, 3, 6, 6)
    assert np.allclose(net.forward(["conv"], data=x)["conv"], np.maximum(convolved(net, x), 0), atol=1e-5)
    with pytest.raises(KeyError):
        net.forward(["cov"], data=x)


def test_weights_written_at_any_time_are_used_in_the_next_run(tmp_path: Path) -> None:
    net = made(tmp_path)
    x = noise(2, 3, 6, 6)
    net.forward(data=x)
    held = net.params["conv"][0].data
    for scale in (0.5, 2):
        held *= scale
        net.forward()
        assert np.allclose(net.blobs["conv"].data, np.maximum(convolved(net, x), 0), atol=1e-5)
    net.params["conv"][1].data[...] = [1, 2, 3, 4]
    net.forward()
    assert np.allclose(net.blobs["conv"].data, np.maximum(convolved(net, x), 0), atol=1e-5)


def test_blobs_of_the_last_run_keep_its_weights(tmp_path: Path) -> None:
    net = made(tmp_path)
    x = noise(2, 3, 6, 6)
    net.forward(data=x)
    want = np.maximum(convolved(net, x), 0)
    net.params["conv"][0].data[...] = 0
    net.forward(start="prob")
    assert np.allclose(net.blobs["conv"].data, want, atol=1e-5)


def test_inputs_of_another_shape_need_a_reshape(tmp_path: Path) -> None:
    net = made(tmp_path)
    x = noise(1, 3, 6, 6)
    rule = (
        r"input 'data' must have shape \(2, 3, 6, 6\), got \(1, 3, 6, 6\); to change it: "
        r"net\.blobs\['data'\]\.reshape\(1, 3, 6, 6\)"
    )
    with pytest.raises(InputError, match=rule):
        net.forward(data=x)
    net.blobs["data"].reshape(1, 3, 6, 6)
    net.reshape()
    assert net.blobs["conv"].data.shape == (1, 4, 4, 4)
    assert net.blobs["prob"].data.shape == (1, 5)
    net.forward(data=x)
    assert np.allclose(net.blobs["conv"].data, np.maximum(convolved(net, x), 0), atol=1e-5)
    with pytest.raises(InputError, match=r"the network has no input 'dat'; did you mean 'data'\?"):
        net.forward(dat=x)
    with pytest.raises(InputError, match=r"reshape takes one integer per axis, got \(1, 2\)"):
        net.blobs["data"].reshape((1, 2))
    with pytest.raises(InputError, match=r"a size cannot be negative, got \(-1,\)"):
        net.blobs["data"].reshape(-1)


def test_forward_all_pads_the_last_batch(tmp_path: Path) -> None:
    net = made(tmp_path)
    x = noise(5, 3, 6, 6)
    found = net.forward_all(["ip"], data=x)
    want = np.maximum(convolved(net, x), 0).reshape(5, -1) @ net.params["ip"][0].data.T
    assert np.allclose(found["ip"], want, atol=1e-5)
    with pytest.raises(InputError, match="forward_all needs arrays for the inputs: data"):
        net.forward_all()


def test_copy_from_takes_layers_of_the_same_names(tmp_path: Path) -> None:
    net, other = made(tmp_path), made(tmp_path)
    net.save(tmp_path / "net.caffemodel")
    before = other.params["conv"][0].data.copy()
    assert not np.array_equal(before, net.params["conv"][0].data)
    other.copy_from(str(tmp_path / "net.caffemodel"))
    x = noise(2, 3, 6, 6)
    assert np.array_equal(other.forward(["ip"], data=x)["ip"], net.forward(["ip"], data=x)["ip"])
    small = made(tmp_path, NET.replace("num_output: 5", "num_output: 6"))
    kept = small.params["conv"][0].data.copy()
    with pytest.raises(FileError, match=r"blob 0 has shape \(5, 64\) in the weights file, expected \(6, 64\)"):
        small.copy_from(tmp_path / "net.caffemodel")
    assert np.array_equal(small.params["conv"][0].data, kept)
    strange = made(tmp_path, NET.replace('"conv" type', '"c" type').replace('"ip" type', '"i" type'))
    kept = strange.params["c"][0].data.copy()
    with pytest.warns(
        UserWarning, match=r"none of its 2 layers with weights \(conv, ip\) is in the network, whose"
    ):
        strange.copy_from(tmp_path / "net.caffemodel")
    assert np.array_equal(strange.params["c"][0].data, kept)
    with pytest.warns(
        UserWarning, match="has no weights of layers 'c', 'i'; they have the values of their fillers"
    ):
        caffe.Net(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", caffe.TEST)


def test_layer_with_the_name_of_an_input_keeps_its_weights(tmp_path: Path) -> None:
    text = """
input: "x" input_shape { dim: 1 dim: 3 }
layer { name: "x" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 2 bias_term: false weight_filler { type: "xavier" } } }
"""
    net = made(tmp_path, text)
    net.save(tmp_path / "net.caffemodel")
    saved = caffe.proto.caffe_pb2.NetParameter.FromString((tmp_path / "net.caffemodel").read_bytes())
    assert [len(layer.blobs) for layer in saved.layer] == [0, 1]
    assert list(saved.layer[1].blobs[0].data) == net.params["x"][0].data.reshape(-1).tolist()


def test_hdf5_weights_round_trip(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="h5py is not installed")
    pytest.importorskip("pyfive", reason="pyfive is not installed")
    net, other = made(tmp_path), made(tmp_path)
    net.save_hdf5(str(tmp_path / "net.caffemodel.h5"))
    other.load_hdf5(str(tmp_path / "net.caffemodel.h5"))
    for name, blobs in net.params.items():
        for mine, theirs in zip(blobs, other.params[name]):
            assert np.array_equal(mine.data, theirs.data)
    with pytest.raises(caffe.TrainingError, match="computes no gradients"):
        net.save_hdf5(tmp_path / "x.h5", write_diff=True)


def test_shared_weights_are_written_through_either_network(tmp_path: Path) -> None:
    net, other = made(tmp_path), made(tmp_path)
    other.share_with(net)
    x = noise(2, 3, 6, 6)
    for seed, owner in enumerate((net, other)):
        owner.params["conv"][0].data[...] = noise(4, 3, 3, 3, seed=seed)
        want = np.maximum(convolved(net, x), 0)
        for each in (net, other):
            assert np.allclose(each.forward(["conv"], data=x)["conv"], want, atol=1e-5)


def test_layers_with_the_same_param_name_share_their_weight(tmp_path: Path) -> None:
    net = made(
        tmp_path,
        """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" param { name: "w" }
  inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" }
  inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } } }
""",
    )
    net.params["b"][0].data[...] = w = noise(3, 3)
    x = noise(1, 3)
    assert np.array_equal(net.params["a"][0].data, w)
    assert np.allclose(net.forward(data=x)["b"], x @ w.T @ w.T, atol=1e-5)


def test_phase_level_and_stages_select_layers(tmp_path: Path) -> None:
    text = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "train" type: "ReLU" bottom: "data" top: "train" include { phase: TRAIN } }
layer { name: "one" type: "ReLU" bottom: "data" top: "one" include { min_level: 1 } }
layer { name: "x" type: "ReLU" bottom: "data" top: "x" include { stage: "x" } }
layer { name: "last" type: "ReLU" bottom: "data" top: "last" }
"""
    assert made(tmp_path, text, caffe.TEST).outputs == ["last"]
    assert made(tmp_path, text, caffe.TRAIN).outputs == ["last", "train"]
    assert made(tmp_path, text, phase=caffe.TEST, level=1).outputs == ["last", "one"]
    assert made(tmp_path, text, caffe.TEST, stages=["x"]).outputs == ["last", "x"]


TRAINING = """
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "uniform" min: -1 }
  data_filler { value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3
  weight_filler { type: "msra" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
"""


def test_losses_are_computed_from_the_labels_of_the_script(tmp_path: Path) -> None:
    net = made(tmp_path, TRAINING)
    assert (net.inputs, net.outputs) == ([], ["accuracy", "loss"])
    assert net.blobs["label"].data.tolist() == [1, 1, 1, 1]
    net.blobs["label"].data[...] = labels = np.array([0, 1, 2, 0])
    first = net.forward()
    x, loss = net.blobs["data"].data.copy(), float(first["loss"])
    scores = x @ net.params["ip"][0].data.T
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    assert loss == pytest.approx(-logs[np.arange(4), labels].mean(), abs=1e-5)
    assert float(first["accuracy"]) == (scores.argmax(1) == labels).mean()
    net.forward()
    assert not np.array_equal(x, net.blobs["data"].data)
    assert net.blobs["label"].data.tolist() == labels.tolist()


def test_blobs_of_data_layers_must_be_written(tmp_path: Path) -> None:
    text = """
layer { name: "data" type: "ImageData" top: "data" top: "label" image_data_param { source: "list.txt" } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
"""
    net = made(tmp_path, text)
    with pytest.raises(
        InputError, match=r"layer 'data' \(ImageData\): anylayer reads no training data, so blob 'data'"
    ):
        net.forward()
    net.blobs["data"].reshape(1, 2)
    net.blobs["data"].data[...] = [[-1, 1]]
    net.blobs["label"].data[...] = 0
    assert net.forward()["relu"].tolist() == [[0, 1]]


def test_weights_after_data_layers_follow_from_the_shapes_of_the_script(tmp_path: Path) -> None:
    text = """
layer { name: "data" type: "%s" top: "data" %s }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2
  weight_filler { type: "xavier" } } }
"""
    whole = made(tmp_path, text % ("Input", "input_param { shape { dim: 1 dim: 3 } }"))
    weights = whole.save(tmp_path / "net.caffemodel")
    net = made(tmp_path, text % ("Data", 'data_param { source: "db" }'))
    message = (
        r"the weights of layers ip have no shapes, because blob 'data' has none. Give it: net.blobs\['data'\]"
    )
    for use in (lambda: net.copy_from(weights), lambda: net.share_with(whole), lambda: net.save(weights)):
        with pytest.raises(InputError, match=message):
            use()
    net.blobs["data"].reshape(2, 3)
    net.blobs["data"].data[...] = x = np.ones((2, 3))
    found = net.forward()["ip"]
    np.testing.assert_allclose(found, x @ net.params["ip"][0].data.T, atol=1e-6)
    assert found.any()
    net.copy_from(weights)
    np.testing.assert_allclose(net.forward()["ip"], x @ whole.params["ip"][0].data.T, atol=1e-6)


def test_input_without_a_shape_needs_one(tmp_path: Path) -> None:
    text = """
layer { name: "data" type: "Input" top: "data" }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
"""
    net = made(tmp_path, text)
    with pytest.raises(
        InputError, match=r"the shape of input 'data' is not in the file\. Give it: net\.blobs\['data'\]"
    ):
        net.forward()
    net.blobs["data"].reshape(1, 2)
    assert net.forward(data=np.array([[-1, 1]]))["relu"].tolist() == [[0, 1]]


def test_unknown_layers_are_named_when_they_are_needed(tmp_path: Path) -> None:
    net = made(tmp_path, NET + 'layer { name: "m" type: "Mystery" bottom: "ip" top: "m" }')
    with pytest.raises(UnknownLayers, match=r"1 unknown layer type: 'Mystery' \(layer 'm'\)"):
        net.forward()
    assert net.forward(end="ip")["ip"].shape == (2, 5)


def test_losses_for_training_only_are_refused_when_they_are_needed(tmp_path: Path) -> None:
    net = made(tmp_path, NET + 'layer { name: "l" type: "EuclideanLoss" bottom: "ip" bottom: "prob" top: "l" }')
    with pytest.raises(AnyLayerError, match=r"layer 'l' \(EuclideanLoss\): EuclideanLoss is a layer for training"):
        net.forward()
    assert net.forward(end="prob")["prob"].sum() == pytest.approx(2)


def test_layers_that_the_weights_file_lacks_are_named(tmp_path: Path) -> None:
    net = made(tmp_path)
    net.save(tmp_path / "net.caffemodel")
    with pytest.warns(
        UserWarning, match=r"net\.caffemodel has no weights of layers 'other'; they have the values of"
    ):
        made(tmp_path, NET.replace('"ip" type', '"other" type'), str(tmp_path / "net.caffemodel"), caffe.TEST)


def test_gradients_and_solvers_are_refused_with_a_remedy(tmp_path: Path) -> None:
    net = made(tmp_path)
    way_out = "a PyTorch module: anylayer generate deploy.prototxt deploy.caffemodel --for pytorch -o project"
    for call in (net.backward, net.clear_param_diffs, caffe.get_solver, caffe.SGDSolver, caffe.AdamSolver):
        with pytest.raises(NotImplementedError, match=way_out):
            call()


def test_random_fillers_draw_from_their_distributions(tmp_path: Path) -> None:
    def weights(filler: str) -> Any:
        text = f"""
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 300 }} }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param {{ num_output: 200
  weight_filler {{ {filler} }} }} }}"""
        return made(tmp_path, text).params["ip"][0].data

    caffe.set_random_seed(3)
    first = weights('type: "gaussian" mean: 1 std: 2')
    assert first.mean() == pytest.approx(1, abs=0.05) and first.std() == pytest.approx(2, abs=0.05)
    caffe.set_random_seed(3)
    assert np.array_equal(first, weights('type: "gaussian" mean: 1 std: 2'))
    uniform = weights('type: "uniform" min: -3 max: 1')
    assert -3 <= uniform.min() < -2.9 and 0.9 < uniform.max() <= 1
    assert np.abs(weights('type: "xavier"')).max() == pytest.approx(np.sqrt(3 / 300), rel=0.01)
    assert np.abs(weights('type: "xavier" variance_norm: FAN_OUT')).max() == pytest.approx(
        np.sqrt(3 / 200), rel=0.01
    )
    assert weights('type: "msra" variance_norm: AVERAGE').std() == pytest.approx(np.sqrt(2 / 250), rel=0.02)
    assert np.allclose(weights('type: "positive_unitball"').sum(1), 1)
    assert (weights('type: "gaussian" sparse: 20') != 0).mean() == pytest.approx(0.1, abs=0.01)
    with pytest.raises(
        AnyLayerError, match=r"layer 'ip' .*: there is no filler 'gausian'; did you mean 'gaussian'"
    ):
        weights('type: "gausian"')


def test_module_has_the_functions_of_pycaffe() -> None:
    caffe.set_mode_cpu()
    caffe.set_device(0)
    caffe.init_log()
    caffe.log("text")
    assert caffe.has_nccl() is False
    assert (caffe.solver_count(), caffe.solver_rank(), caffe.__version__.split(".")[0]) == (1, 0, "1")
    caffe.set_solver_count(1), caffe.set_solver_rank(0), caffe.set_multiprocess(False)
    for call in (caffe.set_solver_count, caffe.set_multiprocess):
        with pytest.raises(NotImplementedError, match="no gradients"):
            call(2)
    assert {"Convolution", "Data", "InnerProduct", "Python"} <= set(caffe.layer_type_list())
    with pytest.warns(UserWarning, match="set_mode_gpu has no effect: anylayer.caffe runs networks on the CPU"):
        caffe.set_mode_gpu()
    with pytest.raises(AttributeError, match=r"module 'anylayer\.caffe' has no attribute 'Sgd'"):
        _ = caffe.Sgd


@needs_data("models")
@pytest.mark.parametrize(("model", "case"), [("mtcnn_det1", "patch12"), ("mtcnn_det2", "batch6")])
def test_every_blob_matches_caffe(model: str, case: str) -> None:
    folder = REFERENCE / "models" / model
    net = caffe.Net(folder / "deploy.prototxt", folder / "weights.caffemodel", caffe.TEST, engine="onnxruntime")
    x = np.load(folder / case / "input_data.npy")
    net.blobs["data"].reshape(*x.shape)
    net.forward(data=x)
    wanted = {name: folder / case / f"blob_{name}.npy" for name in net.blobs}
    assert all(path.exists() for path in wanted.values())
    for name, path in wanted.items():
        want = np.load(path)
        assert net.blobs[name].data.shape == want.shape
        assert np.allclose(net.blobs[name].data, want, rtol=1e-4, atol=1e-4), name


def test_ambiguous_params_are_reported_once(tmp_path: Path) -> None:
    crop = 'layer {{ name: "{0}" type: "Crop" bottom: "conv" bottom: "conv2" top: "{0}" }}'
    small = """layer { name: "conv2" type: "Convolution" bottom: "conv" top: "conv2" convolution_param {
      num_output: 1 kernel_size: 3 } }"""
    text = f"{NET}\n{small}\n{crop.format('a')}\n{crop.format('b')}"
    with pytest.warns(UserWarning) as found:
        made(tmp_path, text)
    (warning,) = found
    assert "layer 'a' (Crop): Crop without crop_param cuts from the corner" in str(warning.message)
    assert str(warning.message).endswith("(the same for 1 more)")
    made(tmp_path, text, dialect="hed")


def test_internals_that_scripts_use_are_there(tmp_path: Path) -> None:
    net = made(tmp_path)
    assert type(net.params["conv"]) is caffe._caffe.BlobVec
    assert caffe.pycaffe.Net is caffe.Net and "Convolution" in caffe._caffe.layer_type_list()
    assert [net._blobs[i] for i in net._inputs] == [net.blobs[name] for name in net.inputs]
    assert [net._blob_names[i] for i in net._outputs] == net.outputs
    timer = caffe.Timer()
    timer.start()
    timer.stop()
    assert timer.ms >= 0


def test_loss_weights_are_those_of_the_file(tmp_path: Path) -> None:
    text = """
input: "x" input_shape { dim: 1 dim: 3 } input: "label" input_shape { dim: 1 }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "loss" }
layer { name: "more" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "more" loss_weight: 0.5 }
"""
    assert made(tmp_path, text).blob_loss_weights == {"x": 0, "label": 0, "loss": 1, "more": 0.5}
