"""From layers to a Network: rules, names of values, parameters, training layers and mean images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anylayer.errors import AnyLayerError, FileError, LayerError, NetworkError
from anylayer.layer import Registry, bind
from anylayer.network import Network, TensorType
from anylayer.readers.caffe import read
from tests.readers.files import INPUT, floats, integer, node, read_net


def refused(text: str, error: type[AnyLayerError] = FileError, **options: object) -> str:
    with pytest.raises(error) as caught:
        read_net(text, **options)
    return str(caught.value)


def relu(name: str, bottom: str, top: str, more: str = "") -> str:
    return f"layer {{ name: '{name}' type: 'ReLU' bottom: '{bottom}' top: '{top}' {more} }}\n"


def wires(network: Network) -> dict[str, tuple[list[str], list[str]]]:
    return {n.name: (n.inputs, n.outputs) for n in network.nodes}


# ---- names of values


def test_last_version_of_a_rewritten_blob_keeps_the_name() -> None:
    network = read_net(
        INPUT + relu("a", "data", "x") + relu("old", "x", "y") + relu("b", "x", "x") + relu("new", "x", "z")
    )
    assert wires(network) == {
        "a": (["data"], ["x@a"]),
        "old": (["x@a"], ["y"]),
        "b": (["x@a"], ["x"]),
        "new": (["x"], ["z"]),
    }
    assert network.outputs == {"y": "y", "z": "z"}
    assert network.blobs == {"data": "data", "x": "x", "y": "y", "z": "z"}
    assert [n.in_place for n in network.nodes] == [False, False, True, False]


def test_rewritten_input_keeps_its_name() -> None:
    network = read_net(INPUT + relu("a", "data", "data") + relu("b", "data", "data"))
    assert wires(network) == {"a": (["data"], ["data@a"]), "b": (["data@a"], ["data@b"])}
    assert network.inputs == {"data": TensorType.of((1, 3, 8, 8))}
    assert network.outputs == {"data": "data@b"}
    assert network.blobs == {"data": "data@b"}


def test_names_of_values_do_not_collide() -> None:
    network = read_net(
        INPUT + relu("a", "data", "x") + relu("b", "x", "x") + relu("c", "x", "x") + relu("d", "data", "x@a")
    )
    assert wires(network)["a"] == (["data"], ["x@a_1"])
    assert wires(network)["d"] == (["data"], ["x@a"])


def test_duplicate_layer_names() -> None:
    network = read_net(INPUT + relu("a", "data", "x") + relu("a_1", "x", "y") + relu("a", "y", "z"))
    assert [n.name for n in network.nodes] == ["a", "a_1", "a_2"]
    assert network.nodes[2].place == "deploy.prototxt:4: layer 'a' (ReLU)"


def test_layer_without_a_name_is_named_after_its_type() -> None:
    assert read_net(INPUT + "layer { type: 'ReLU' bottom: 'data' top: 'x' }").nodes[0].name == "ReLU"


def test_outputs_are_in_alphabetical_order() -> None:
    network = read_net(INPUT + relu("a", "data", "b") + relu("c", "data", "a") + relu("d", "data", "B"))
    assert list(network.outputs) == ["B", "a", "b"]


def test_input_without_consumers_is_an_output() -> None:
    assert read_net(INPUT + "layer { name: 'i' type: 'Input' top: 'z' }" + relu("a", "data", "x")).outputs == {
        "x": "x",
        "z": "z",
    }


SHARED = INPUT + relu("a", "data", "x") + relu("b", "x", "y") + relu("c", "x", "x") + relu("d", "x", "z")


def test_other_consumers_read_the_value_before_the_rewrite() -> None:
    network = read_net(SHARED)
    assert [(n.inputs, n.outputs, n.in_place) for n in network.nodes] == [
        (["data"], ["x@a"], False),
        (["x@a"], ["y"], False),
        (["x@a"], ["x"], True),
        (["x"], ["z"], False),
    ]
    assert network.notes == [
        "layer 'c' (ReLU) rewrites 'x', which 'b' read too. Caffe refuses that; here they read the value "
        "from before"
    ]


def test_rewrite_before_other_consumers_is_not_noted() -> None:
    network = read_net(
        INPUT + relu("a", "data", "x") + relu("c", "x", "x") + relu("b", "x", "y") + relu("d", "x", "z")
    )
    assert (network.nodes[1].in_place, network.notes) == (True, [])


def test_input_without_shape_has_no_type() -> None:
    network = read_net("layer { name: 'i' type: 'Input' top: 'a' top: 'b' }" + relu("r", "a", "x"))
    assert network.inputs == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            relu("a", "dat", "x"),
            "deploy.prototxt:2: layer 'a' (ReLU): bottom 'dat' is produced by no layer; did you mean 'data'?",
        ),
        (
            relu("a", "y", "x") + relu("b", "data", "y"),
            "deploy.prototxt:2: layer 'a' (ReLU): bottom 'y' is produced later, by layer 'b' (line 3). Caffe "
            "computes layers in the order of the file",
        ),
        (
            relu("a", "x", "x"),
            "deploy.prototxt:2: layer 'a' (ReLU): bottom 'x' is produced later, by layer 'a' (line 2). Caffe "
            "computes layers in the order of the file",
        ),
        (
            relu("a", "data", "x", "include { phase: TRAIN }") + relu("b", "x", "y"),
            "deploy.prototxt:3: layer 'b' (ReLU): bottom 'x' is produced only by layer 'a' (line 2), which its "
            "include and exclude rules leave out at phase TEST, level 0",
        ),
        (
            relu("a", "data", "x") + relu("b", "data", "x"),
            "deploy.prototxt:3: layer 'b' (ReLU): top 'x' is already produced by layer 'a' (line 2). Only a layer "
            "whose bottom 0 is 'x' too may rewrite it",
        ),
        (
            relu("a", "data", "x") + "layer { name: 'e' type: 'Eltwise' bottom: 'data' bottom: 'x' top: 'x' }",
            "deploy.prototxt:3: layer 'e' (Eltwise): top 'x' is already produced by layer 'a' (line 2). Only a "
            "layer whose bottom 0 is 'x' too may rewrite it",
        ),
        (
            "layer { name: 's' type: 'Slice' bottom: 'data' top: 'x' top: 'x' }",
            "deploy.prototxt:2: layer 's' (Slice): top 'x' is already produced by layer 's' (line 2). Only a "
            "layer whose bottom 1 is 'x' too may rewrite it",
        ),
        (
            relu("a", "data", "x", "loss_weight: 1 loss_weight: 2"),
            "deploy.prototxt:2: layer 'a' (ReLU): 'loss_weight' must be given once per top or not at all: "
            "1 tops, got 2",
        ),
    ],
)
def test_inconsistent_layers_are_refused(text: str, message: str) -> None:
    assert refused(INPUT + text, AnyLayerError) == message


# ---- rules


@pytest.mark.parametrize(
    ("rule", "options", "kept"),
    [
        ("include { phase: TEST }", {}, True),
        ("include { phase: TRAIN }", {}, False),
        ("include { phase: TRAIN }", {"phase": "TRAIN"}, True),
        ("include { phase: 1 }", {}, True),
        ("exclude { phase: TEST }", {}, False),
        ("phase: TRAIN", {}, True),
        ("include { phase: TRAIN } include { min_level: 0 }", {}, True),
        ("include { phase: TEST min_level: 1 }", {}, False),
        ("include { min_level: 1 }", {"level": 1}, True),
        ("include { min_level: 1 max_level: 2 }", {"level": 3}, False),
        ("exclude { max_level: -1 }", {"level": 0}, True),
        ("include { stage: 'a' }", {}, False),
        ("include { stage: 'a' }", {"stages": ("a", "b")}, True),
        ("include { stage: 'a' stage: 'b' }", {"stages": ("a",)}, False),
        ("include { not_stage: 'a' }", {}, True),
        ("include { not_stage: 'a' }", {"stages": ("a",)}, False),
        ("exclude { stage: 'a' } exclude { stage: 'b' }", {"stages": ("b",)}, False),
        ("include { }", {}, True),
        ("exclude { }", {}, False),
    ],
)
def test_include_and_exclude_rules(rule: str, options: dict[str, object], kept: bool) -> None:
    network = read_net(INPUT + relu("a", "data", "x", rule) + relu("b", "data", "y"), **options)
    assert ("a" in wires(network)) is kept


def test_state_of_the_file_is_used() -> None:
    text = "state { phase: TRAIN level: 2 stage: 'a' }\n" + INPUT
    text += relu("a", "data", "x", "include { stage: 'a' min_level: 2 phase: TEST }")
    assert wires(read_net(text)) != {}
    with pytest.raises(NetworkError):
        read_net(text + relu("b", "x", "y"), level=1)


def test_phase_of_a_layer_does_not_exclude_it() -> None:
    network = read_net(INPUT + relu("a", "data", "x", "phase: TRAIN") + relu("b", "x", "y"))
    assert [n.settings for n in network.nodes] == [{"phase": "TRAIN"}, {}]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "include { }\nexclude { }",
            "deploy.prototxt:3: a layer must have only one of 'include' and 'exclude' rules, got both",
        ),
        (
            "\ninclude { fase: TEST }",
            "deploy.prototxt:3: an include or exclude rule has no field 'fase'; did you mean 'phase'?",
        ),
        ("include { phase: test }", "deploy.prototxt:2: 'phase' must be TRAIN or TEST, got test"),
        ("include { phase: true }", "deploy.prototxt:2: 'phase' must be TRAIN or TEST, got true"),
        ("include { stage: a }", "deploy.prototxt:2: 'stage' must be a quoted string, got a"),
        ("include { min_level: 'a' }", "deploy.prototxt:2: 'min_level' must be an integer, got \"a\""),
        ("include: 5", "deploy.prototxt:2: 'include' must be a message { ... }, got 5"),
    ],
)
def test_wrong_rules_are_refused(rule: str, message: str) -> None:
    assert refused(INPUT + relu("a", "data", "x", rule)) == message


def test_wrong_state_is_refused() -> None:
    assert refused("state {\nstages: 'a' }\n" + INPUT + relu("a", "data", "x")) == (
        "deploy.prototxt:2: 'state' has no field 'stages'"
    )


# ---- fields


def test_node_has_params_lines_and_place() -> None:
    network = read_net(
        INPUT
        + """layer { name: "c" type: "Convolution" bottom: "data" top: "c" param { lr_mult: 1 } param { }
        convolution_param {
          num_output: 4 pad: 1 pad: 2
          weight_filler { type: "xavier" }
        } }"""
    )
    conv = node(network, "c")
    assert conv.params == {
        "convolution_param": {"num_output": 4, "pad": [1, 2], "weight_filler": {"type": "xavier"}}
    }
    assert conv.lines["convolution_param.pad"] == 4
    assert conv.lines["convolution_param.weight_filler.type"] == 5
    assert conv.place == "deploy.prototxt:2: layer 'c' (Convolution)"


def test_messages_of_other_layers_are_kept() -> None:
    network = read_net(INPUT + relu("a", "data", "x", "pooling_param { pool: MAX } interp_param { height: 3 }"))
    assert node(network, "a").params == {"pooling_param": {"pool": "MAX"}, "interp_param": {"height": 3}}


def test_unknown_type_keeps_all_fields() -> None:
    network = read_net(
        INPUT
        + "layer { name: 'm' type: 'Mystery' bottom: 'data' top: 'x' depth: -3 mystery_param { a { b: 'c' } } }"
    )
    assert node(network, "m").params == {"depth": -3, "mystery_param": {"a": {"b": "c"}}}


def test_users_type_keeps_all_fields() -> None:
    text = INPUT + relu("a", "data", "x", "mystery_param { a: 1 }")
    assert node(read_net(text, user_types=frozenset(["ReLU"])), "a").params == {"mystery_param": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            relu("a", "data", "x", "\nrelu_parm { negative_slope: 1 }"),
            "deploy.prototxt:3: layer 'a' (ReLU) has no field 'relu_parm'; did you mean 'relu_param'?",
        ),
        (
            relu("a", "data", "x", "botom: 'data'"),
            "deploy.prototxt:2: layer 'a' (ReLU) has no field 'botom'; did you mean 'bottom'?",
        ),
        ("layer { name: 'a' bottom: 'data' top: 'x' }", "deploy.prototxt:2: layer 'a' has no type"),
        ("layer { name: 'a' type: '' }", "deploy.prototxt:2: layer 'a' has no type"),
        ("layer { name: 'a' type: ReLU }", "deploy.prototxt:2: 'type' must be a quoted string, got ReLU"),
        (
            "layer { name: 'a' name: 'b' type: 'ReLU' }",
            "deploy.prototxt:2: 'name' is given 2 times, once is allowed",
        ),
        ("layer: 'a'", "deploy.prototxt:2: 'layer' must be a message { ... }, got \"a\""),
        (
            "layer { name: 'a' type: 'ReLU' bottom: data }",
            "deploy.prototxt:2: 'bottom' must be a quoted string, got data",
        ),
        (
            "layer { name: 'a' type: 'ReLU' loss_weight: '1' }",
            "deploy.prototxt:2: 'loss_weight' must be a number, got \"1\"",
        ),
        ("layr { }", "deploy.prototxt:2: a network has no field 'layr'; did you mean 'layer'?"),
        (
            "force_backward: true\ndebug: true",
            "deploy.prototxt:3: a network has no field 'debug'; did you mean 'debug_info'?",
        ),
    ],
)
def test_wrong_fields_are_refused(text: str, message: str) -> None:
    assert refused(INPUT + text) == message


def test_error_of_an_input_layer_names_it() -> None:
    text = "layer { name: 'i' type: 'Input' top: 'data' input_param { shape { dim: -1 } } }"
    assert refused(text, LayerError) == (
        "deploy.prototxt:1: layer 'i' (Input): dimensions must be 0 or more, got (-1,)"
    )


# ---- data, loss and sink layers

TRAIN_VAL = """
name: "net"
layer { name: "train" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        transform_param { crop_size: 9 } }
layer { name: "test" type: "Data" top: "data" top: "label" include { phase: TEST }
        transform_param { scale: 0.5 mean_value: 1 mean_value: 2 mean_value: 3 crop_size: 4 force_gray: true } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "acc" type: "Accuracy" bottom: "fc" bottom: "label" top: "acc" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
"""


def test_training_layers_are_dropped() -> None:
    network = read_net(TRAIN_VAL)
    assert network.name == "net"
    assert network.inputs == {"data": None}
    assert wires(network) == {"fc": (["data"], ["fc"])}
    assert network.outputs == {"fc": "fc"}
    assert network.notes == [
        "layer 'acc' (Accuracy) serves training and is left out; it reads 'fc'",
        "layer 'loss' (SoftmaxWithLoss) serves training and is left out; it reads 'fc'",
    ]
    found = network.preprocess["data"]
    assert found.mean is not None
    assert (found.scale, found.mean.tolist(), found.crop, found.gray) == (0.5, [1.0, 2.0, 3.0], 4, True)
    assert found.source == "transform_param of deploy.prototxt:6"


def test_loss_layer_that_reads_only_inputs_is_kept() -> None:
    text = INPUT + "layer { name: 'l' type: 'Input' top: 'label' }"
    text += "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' top: 'loss' }"
    network = read_net(text)
    assert [n.type for n in network.nodes] == ["SoftmaxWithLoss"]
    assert list(network.inputs) == ["data", "label"]
    assert network.notes == []


def test_training_layer_that_reads_only_inputs_is_dropped() -> None:
    network = read_net(
        INPUT
        + """
        layer { name: "l" type: "Input" top: "labels" }
        layer { name: "cut" type: "Slice" bottom: "labels" top: "l1" top: "l2" }
        layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 5 } }
        layer { name: "sig" type: "Sigmoid" bottom: "fc" top: "sig" }
        layer { name: "loss" type: "EuclideanLoss" bottom: "sig" bottom: "l1" top: "loss" }
        layer { name: "loss2" type: "EuclideanLoss" bottom: "l2" bottom: "sig" top: "loss2" }
        """
    )
    assert list(network.inputs) == ["data"]
    assert list(wires(network)) == ["fc", "sig"]
    assert list(network.outputs) == ["sig"]


def test_layers_that_only_prepare_labels_are_dropped() -> None:
    network = read_net(
        """
        layer { name: "d" type: "Data" top: "data" top: "labels" }
        layer { name: "cut" type: "Slice" bottom: "labels" top: "l1" top: "l2" top: "l3" }
        layer { name: "hush" type: "Silence" bottom: "l3" }
        layer { name: "fc1" type: "InnerProduct" bottom: "data" top: "fc1" inner_product_param { num_output: 5 } }
        layer { name: "fc2" type: "InnerProduct" bottom: "data" top: "fc2" inner_product_param { num_output: 5 } }
        layer { name: "loss1" type: "EuclideanLoss" bottom: "l1" bottom: "fc1" top: "loss1" }
        layer { name: "loss2" type: "SoftmaxWithLoss" bottom: "fc2" bottom: "l2" top: "loss2" }
        """
    )
    assert list(network.inputs) == ["data"]
    assert list(wires(network)) == ["fc1", "fc2"]
    assert list(network.outputs) == ["fc1", "fc2"]
    assert network.notes[-1] == "layer 'cut' (Slice) only prepares labels and is left out"


def test_target_computed_from_the_data_is_kept() -> None:
    network = read_net(
        """
        layer { name: "d" type: "Data" top: "data" }
        layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
        layer { name: "code" type: "InnerProduct" bottom: "flat" top: "code"
                inner_product_param { num_output: 5 } }
        layer { name: "loss" type: "EuclideanLoss" bottom: "code" bottom: "flat" top: "loss" }
        """
    )
    assert list(wires(network)) == ["flat", "code"]
    assert list(network.outputs) == ["code"]


def test_label_of_a_siamese_network_is_dropped() -> None:
    network = read_net(
        """
        layer { name: "d" type: "Data" top: "pair" top: "sim" }
        layer { name: "cut" type: "Slice" bottom: "pair" top: "a" top: "b" }
        layer { name: "fa" type: "InnerProduct" bottom: "a" top: "fa" inner_product_param { num_output: 5 } }
        layer { name: "fb" type: "InnerProduct" bottom: "b" top: "fb" inner_product_param { num_output: 5 } }
        layer { name: "loss" type: "ContrastiveLoss" bottom: "fa" bottom: "fb" bottom: "sim" top: "loss" }
        """
    )
    assert list(network.inputs) == ["pair"]
    assert list(network.outputs) == ["fa", "fb"]


def test_consumers_of_a_dropped_loss_are_dropped() -> None:
    network = read_net(
        TRAIN_VAL
        + """
        layer { name: "half" type: "Power" bottom: "loss" top: "half" power_param { scale: 0.5 } }
        layer { name: "sum" type: "Eltwise" bottom: "half" bottom: "loss" top: "sum" }
        layer { name: "hush" type: "Silence" bottom: "sum" }
        """
    )
    assert list(wires(network)) == ["fc"]
    assert list(network.outputs) == ["fc"]
    assert network.notes[2:] == [
        "layer 'half' (Power) reads 'loss', which is left out; so is this layer",
        "layer 'sum' (Eltwise) reads 'half', which is left out; so is this layer",
    ]


def test_sink_counts_as_consumer() -> None:
    network = read_net(
        INPUT + relu("a", "data", "x") + relu("b", "data", "y") + "layer { name: 's' type: 'Silence' bottom: 'x' }"
    )
    assert list(network.outputs) == ["y"]
    assert "s" not in wires(network)


# ---- means


def mean_bytes() -> bytes:
    return integer(1, 1) + integer(2, 2) + integer(3, 1) + integer(4, 2) + floats(5, [1, 2, 3, 4])


def transform(fields: str) -> str:
    return f"layer {{ name: 'd' type: 'Input' top: 'data' transform_param {{ {fields} }} }}" + relu(
        "a", "data", "x"
    )


@pytest.mark.parametrize("name", ["mean.binaryproto", "data/mean.binaryproto", "/far/away/mean.binaryproto"])
def test_mean_file_in_the_networks_folder_is_read(name: str) -> None:
    Path("mean.binaryproto").write_bytes(mean_bytes())
    found = read_net(transform(f"mean_file: '{name}'")).preprocess["data"]
    assert found.mean is not None
    assert found.mean.tolist() == [[[1.0, 2.0]], [[3.0, 4.0]]]
    assert found.mean.dtype == np.float32
    assert found.mean_file == name


def test_mean_file_in_another_folder_is_not_read(tmp_path: Path) -> None:
    Path("net").mkdir()
    Path("mean.binaryproto").write_bytes(mean_bytes())
    Path("net/deploy.prototxt").write_text(transform("mean_file: '../mean.binaryproto'"))
    network = read(Path("net/deploy.prototxt"))
    assert network.preprocess["data"].mean is None
    assert network.notes == [
        "the mean file '../mean.binaryproto' is not in the network's folder: subtract the mean from pictures "
        "yourself"
    ]


@pytest.mark.parametrize(
    ("mode", "size"), [("", (300, 200)), ("resize_mode: WARP", (300, 200)), ("resize_mode: FIT_SMALL_SIZE", None)]
)
def test_size_of_ssds_resize_param(mode: str, size: tuple[int, int] | None) -> None:
    network = read_net(
        f"layer {{ name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' transform_param {{ mean_value: 1 "
        f"resize_param {{ prob: 1 {mode} height: 300 width: 200 interp_mode: LINEAR interp_mode: AREA }} "
        "expand_param { prob: 0.5 } distort_param { hue_prob: 0.5 } emit_constraint { emit_type: CENTER } } "
        "annotated_data_param { batch_sampler { } label_map_file: 'x' } data_param { source: 'x' cache: true } }"
        + relu("a", "data", "y")
    )
    assert network.inputs == {"data": None}
    assert network.preprocess["data"].size == size


def test_training_file_of_ssd() -> None:
    text = """
    layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' annotated_data_param { } }
    layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'loc' }
    layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'loc' bottom: 'label' top: 'loss' include { phase: TRAIN }
      loss_param { normalization: VALID } multibox_loss_param { loc_loss_type: SMOOTH_L1 } }
    layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'loc' bottom: 'label' top: 'eval'
      include { phase: TEST } detection_evaluate_param { num_classes: 21 } }
    """
    for phase, left_out in (("TRAIN", "loss"), ("TEST", "eval")):
        network = read_net(text, phase=phase)
        assert list(network.inputs) == ["data"]
        assert list(network.outputs) == ["loc"]
        assert f"layer '{left_out}'" in network.notes[0]


def test_wrong_mean_files_are_refused() -> None:
    assert refused(transform("mean_file: 'a' mean_value: 1")) == (
        "deploy.prototxt:1: transform_param must have only one of 'mean_file' and 'mean_value', got both"
    )
    Path("m").write_bytes(b"\x89PNG\r\n\x1a\n1234")
    assert refused(transform("mean_file: 'm'")) == (
        "deploy.prototxt:1: m: this is a picture (PNG), not a mean image (.binaryproto)"
    )


# ---- layers that pycaffe runs


def test_type_of_a_python_layer_is_its_class() -> None:
    text = INPUT + "".join(
        f"layer {{ name: '{kind}' type: 'Python' bottom: 'data' top: '{kind}' "
        f"python_param {{ module: 'm' {f'layer: {kind!r}' if kind != 'none' else ''} }} }}\n"
        for kind in ("ProposalLayer", "Crop", "none")
    )
    assert [n.type for n in read_net(text).nodes] == ["ProposalLayer", "Python", "Python"]
    assert [n.type for n in read_net(text, user_types=frozenset(["Crop"])).nodes] == [
        "ProposalLayer",
        "Crop",
        "Python",
    ]
    assert read_net(text).nodes[0].params == {"python_param": {"module": "m", "layer": "ProposalLayer"}}


# ---- fields that do not affect values


def test_engine_field_is_ignored() -> None:
    relu = "layer {{ name: 'r' type: 'ReLU' bottom: 'data' top: 'r' {} }}"
    for engine in ("engine: 'MKL2017'", "engine: CAFFE", "engine: 1"):
        assert read_net(INPUT + relu.format(engine)).nodes[0].params == {}
        assert read_net(f"{engine}\n" + INPUT + relu.format("")).nodes[0].params == {}
    assert read_net(INPUT + relu.format("engine: 'x'").replace("ReLU", "Mine")).nodes[0].params == {"engine": "x"}
    assert "has no field 'engines'" in refused(INPUT + relu.format("engines: 1"))


def test_fields_for_a_precision_are_ignored_with_a_note() -> None:
    """Intel's models state quantization_param per layer, NVIDIA's default_forward_type for the network."""
    layer = "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' quantization_param { bw_layer_in: 8 } }"
    network = read_net("default_forward_type: FLOAT16\n" + INPUT + layer)
    assert network.nodes[0].params == {}
    assert [note.split(":")[0] for note in network.notes] == [
        "default_forward_type is ignored",
        "quantization_param is ignored",
    ]
    assert "a network has no field 'forward_type'" in refused("forward_type: FLOAT16\n" + INPUT)


@pytest.mark.parametrize("dialect", [None, "bvlc", "intel", "sophgo"])
@pytest.mark.parametrize(
    ("type_", "message"),
    [("BatchNorm", "batch_norm"), ("Concat", "concat"), ("Eltwise", "eltwise"), ("InnerProduct", "inner_product")],
)
def test_engines_of_intel_are_read(dialect: str | None, type_: str, message: str) -> None:
    count = "num_output: 2" if type_ == "InnerProduct" else ""
    own = f"{message}_param {{ engine: MKLDNN {count} }}"
    text = f"layer {{ name: 'r' type: '{type_}' bottom: 'data' top: 'r' {own} }}"
    network = read_net(INPUT + text, dialect=dialect)
    (node,) = network.nodes
    bound = bind(node, Registry.of("caffe").find(type_), [TensorType.of((1, 3, 4, 4))], dialect)
    assert (bound.instance.engine, bound.notes) == ("MKLDNN", [])
