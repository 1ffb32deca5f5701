"""Old networks are upgraded to the current form: V0 layers, V1 layers, old input fields."""

from __future__ import annotations

import pytest

from anylayer.errors import AnyLayerError
from anylayer.network import Network, TensorType
from tests.readers.files import node, read_net

DIMS = "input: 'data' input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 6\n"


def refused(text: str, **options: object) -> str:
    with pytest.raises(AnyLayerError) as caught:
        read_net(text, **options)
    return str(caught.value)


def test_v0_network_is_upgraded() -> None:
    network = read_net(
        DIMS
        + """
        layers { layer { name: "pad" type: "padding" pad: 2 } bottom: "data" top: "padded" }
        layers { layer { name: "conv" type: "conv" num_output: 4 kernelsize: 5 stride: 2 group: 1 biasterm: false
                 weight_filler { type: "xavier" } blobs_lr: 1. weight_decay: 0. } bottom: "padded" top: "conv" }
        layers { layer { name: "relu" type: "relu" } bottom: "conv" top: "conv" }
        layers { layer { name: "pool" type: "pool" pool: AVE kernelsize: 3 stride: 2 } bottom: "conv" top: "pool" }
        layers { layer { name: "lrn" type: "lrn" local_size: 3 alpha: 0.1 beta: 0.5 } bottom: "pool" top: "lrn" }
        layers { layer { name: "drop" type: "dropout" dropout_ratio: 0.3 } bottom: "lrn" top: "lrn" }
        layers { layer { name: "cat" type: "concat" concat_dim: 1 } bottom: "lrn" bottom: "pool" top: "cat" }
        layers { layer { name: "fc" type: "innerproduct" num_output: 7 } bottom: "cat" top: "fc" }
        layers { layer { name: "prob" type: "softmax" } bottom: "fc" top: "prob" }
        """
    )
    assert [(n.type, n.inputs, n.outputs) for n in network.nodes[:3]] == [
        ("Convolution", ["data"], ["conv@conv"]),
        ("ReLU", ["conv@conv"], ["conv"]),
        ("Pooling", ["conv"], ["pool"]),
    ]
    assert [n.type for n in network.nodes[3:]] == ["LRN", "Dropout", "Concat", "InnerProduct", "Softmax"]
    assert node(network, "conv").params == {
        "convolution_param": {
            "num_output": 4,
            "kernel_size": 5,
            "stride": 2,
            "group": 1,
            "bias_term": 0,
            "weight_filler": {"type": "xavier"},
            "pad": 2,
        }
    }
    assert node(network, "pool").params == {"pooling_param": {"pool": "AVE", "kernel_size": 3, "stride": 2}}
    assert node(network, "lrn").params == {"lrn_param": {"local_size": 3, "alpha": 0.1, "beta": 0.5}}
    assert node(network, "drop").params == {"dropout_param": {"dropout_ratio": 0.3}}
    assert node(network, "cat").params == {"concat_param": {"concat_dim": 1}}
    assert network.inputs == {"data": TensorType.of((1, 3, 8, 6))}
    assert list(network.outputs) == ["prob"]


def test_v0_data_fields_move_to_transform_param() -> None:
    network = read_net(
        """
        layers { layer { name: "d" type: "data" source: "db" batchsize: 64 scale: 0.5 cropsize: 4 } top: "data"
                 top: "label" }
        layers { layer { name: "fc" type: "innerproduct" num_output: 7 } bottom: "data" top: "fc" }
        layers { layer { name: "loss" type: "softmax_loss" } bottom: "fc" bottom: "label" }
        """
    )
    assert network.preprocess["data"].scale == 0.5
    assert network.preprocess["data"].crop == 4
    assert list(network.outputs) == ["fc"]


def v0(inner: str, bottom: str = "data") -> str:
    return DIMS + f"layers {{ layer {{ name: 'a' {inner} }} bottom: '{bottom}' top: 'a' }}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (v0("type: 'conf'"), "deploy.prototxt:2: V0 has no layer type 'conf'; did you mean 'conv'?"),
        (
            v0("type: 'relu' num_output: 3"),
            "deploy.prototxt:2: a V0 layer of type 'relu' has no field 'num_output'",
        ),
        (
            v0("type: 'conv' kernel_size: 3"),
            "deploy.prototxt:2: a V0 layer of type 'conv' has no field 'kernel_size'; did you mean 'kernelsize'?",
        ),
        (
            DIMS + "layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'data' top: 'p' }\n"
            "layers { layer { name: 'r' type: 'relu' } bottom: 'p' top: 'r' }",
            "deploy.prototxt:3: only a conv or a pool may read a padding layer, got relu",
        ),
        (
            DIMS + "layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'data' top: 'p' top: 'q' }",
            "deploy.prototxt:2: a padding layer must have one bottom and one top",
        ),
        (
            v0("type: 'relu'") + "\nlayers { name: 'b' type: RELU bottom: 'a' top: 'b' }",
            "deploy.prototxt:3: every 'layers { }' of a V0 network must have a 'layer { }', this one has none",
        ),
    ],
)
def test_wrong_v0_layers_are_refused(text: str, message: str) -> None:
    assert refused(text) == message


def test_v1_types_of_caffe() -> None:
    words = (
        "ACCURACY BNLL CONCAT CONVOLUTION DATA DROPOUT EUCLIDEAN_LOSS FLATTEN HDF5_DATA HDF5_OUTPUT IM2COL "
        "IMAGE_DATA INFOGAIN_LOSS INNER_PRODUCT LRN MULTINOMIAL_LOGISTIC_LOSS POOLING RELU SIGMOID SOFTMAX "
        "SOFTMAX_LOSS SPLIT TANH WINDOW_DATA ELTWISE POWER SIGMOID_CROSS_ENTROPY_LOSS HINGE_LOSS MEMORY_DATA "
        "ARGMAX THRESHOLD DUMMY_DATA SLICE MVN ABSVAL SILENCE CONTRASTIVE_LOSS EXP DECONVOLUTION"
    )
    names = (
        "Accuracy BNLL Concat Convolution Data Dropout EuclideanLoss Flatten HDF5Data HDF5Output Im2col ImageData "
        "InfogainLoss InnerProduct LRN MultinomialLogisticLoss Pooling ReLU Sigmoid Softmax SoftmaxWithLoss Split "
        "TanH WindowData Eltwise Power SigmoidCrossEntropyLoss HingeLoss MemoryData ArgMax Threshold DummyData "
        "Slice MVN AbsVal Silence ContrastiveLoss Exp Deconvolution"
    )
    from anylayer.readers.caffe.upgrade import v2_type_name

    assert [v2_type_name(word, {}) for word in words.split()] == names.split()
    assert v2_type_name("NONE", {}) == ""


@pytest.mark.parametrize(
    ("word", "type_"), [("INTERP", "Interp"), ("RELU6", "ReLU6"), ("CROP", "Crop"), ("MY_NEW_THING", "MyNewThing")]
)
def test_v1_types_of_forks(word: str, type_: str) -> None:
    network = read_net(DIMS + f"layers {{ name: 'a' type: {word} bottom: 'data' top: 'a' }}")
    assert network.nodes[0].type == type_


def test_v1_types_of_users_layers() -> None:
    text = DIMS + "layers { name: 'a' type: MY_NEW_THING bottom: 'data' top: 'a' }"
    assert read_net(text, user_types=frozenset(["MYNewThing"])).nodes[0].type == "MYNewThing"


def test_v1_network_is_upgraded() -> None:
    network = read_net(
        DIMS
        + """
        layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2 weight_decay: 1
                 param: "w" blob_share_mode: PERMISSIVE convolution_param { num_output: 4 kernel_size: 3 } }
        layers { name: "relu" type: 18 bottom: "conv" top: "conv" }
        layers { name: "z" type: INTERP bottom: "conv" top: "z" interp_param { zoom_factor: 2 } loss_weight: 0.5 }
        """
    )
    assert [n.type for n in network.nodes] == ["Convolution", "ReLU", "Interp"]
    assert node(network, "conv").params == {"convolution_param": {"num_output": 4, "kernel_size": 3}}
    assert node(network, "z").params == {"interp_param": {"zoom_factor": 2}}
    assert node(network, "z").settings == {"loss_weight": [0.5]}
    assert node(network, "z").lines["interp_param.zoom_factor"] == 6
    assert node(network, "z").place == "deploy.prototxt:6: layer 'z' (Interp)"


def test_v1_data_fields_move_to_transform_param() -> None:
    network = read_net(
        """
        layers { name: "d" type: DATA top: "data" top: "label" transform_param { mean_value: 104 mean_value: 117 }
                 data_param { source: "db" scale: 0.25 crop_size: 5 mirror: true } }
        layers { name: "fc" type: INNER_PRODUCT bottom: "data" top: "fc" inner_product_param { num_output: 7 } }
        layers { name: "acc" type: ACCURACY bottom: "fc" bottom: "label" top: "acc" }
        """
    )
    found = network.preprocess["data"]
    assert (found.scale, found.crop) == (0.25, 5)
    assert found.mean is not None
    assert found.mean.tolist() == [104.0, 117.0]
    assert list(network.inputs) == ["data"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "layers { name: 'a' type: RELU bottom: 'data' top: 'a' }\n"
            "layer { name: 'b' type: 'ReLU' bottom: 'a' top: 'b' }",
            "deploy.prototxt:2: a network must have only one of 'layer' (new style) and 'layers' (old style), "
            "got both",
        ),
        (
            "layers { name: 'a' type: 'ReLU' bottom: 'data' top: 'a' }",
            "deploy.prototxt:2: the type of 'layers' (old style) must be a word such as CONVOLUTION, got "
            '"ReLU". '
            "Write 'layer' for a layer with a quoted type",
        ),
        (
            "layers { name: 'a' type: 41 bottom: 'data' top: 'a' }",
            "deploy.prototxt:2: layer type number 41 is not one of Caffe's, and differs between forks. Give "
            "the fork's "
            "caffe.proto with proto=...",
        ),
    ],
)
def test_wrong_v1_layers_are_refused(text: str, message: str) -> None:
    assert refused(DIMS + text) == message


RELU = "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }"


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("input: 'data' input_shape { dim: 2 dim: 5 }", {"data": (2, 5)}),
        ("input: 'data' input_shape: { dim: [2, 5] }", {"data": (2, 5)}),
        ("input: 'data' input_dim: [1, 3, 4, 5]", {"data": (1, 3, 4, 5)}),
        ("input: 'data' input: 'z' input_shape { dim: 2 } input_shape { }", {"data": (2,), "z": ()}),
        (
            "input: 'data' input_dim: [1, 3, 4, 5] input: 'z' input_dim: [1, 1, 1, 9]",
            {"data": (1, 3, 4, 5), "z": (1, 1, 1, 9)},
        ),
        ("input: 'data'", {"data": None}),
    ],
)
def test_old_input_fields(text: str, inputs: dict[str, tuple[int, ...] | None]) -> None:
    network: Network = read_net(text + "\n" + RELU)
    assert {n: t and t.shape for n, t in network.inputs.items()} == inputs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input: 'data'\ninput_dim: [1, 3, 4]", "deploy.prototxt:2: 1 'input' need 4 'input_dim', got 3"),
        (
            "input: 'data'\ninput: 'z'\ninput_shape { dim: 1 }",
            "deploy.prototxt:3: 2 'input' need 2 'input_shape', got 1",
        ),
        (
            "input: 'data' input_shape { dim: 1 }\ninput_dim: 1",
            "deploy.prototxt:2: inputs must have only one of 'input_shape' and 'input_dim', got both",
        ),
        ("input: data", "deploy.prototxt:1: 'input' must be a quoted string, got data"),
    ],
)
def test_wrong_input_fields_are_refused(text: str, message: str) -> None:
    assert refused(text + "\n" + RELU) == message
