"""Tests of the Darknet reader: .cfg files, .weights files, and whole networks through every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, FileError, UnknownLayers
from anylayer.layer import Layer, field, layer

YOLO = """# a small network with two maps of boxes
[net]
batch=64            # of training
width=32
height=64
channels=3

[convolutional]
batch_normalize=1
filters=6
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
size=1
stride=1
filters=14
activation=linear

[yolo]
mask = 1,2
anchors = 3,4, 10,14,  23,27
classes=2
num=3

[route]
layers = -3

[upsample]
stride=2

[convolutional]
size=1
stride=1
filters=14
activation=linear

[yolo]
mask = 0,1
anchors = 3,4, 10,14,  23,27
classes=2
num=3
"""
COUNTS = [6 * 4 + 6 * 3 * 9, 14 + 14 * 6, 14 + 14 * 6]
"""The numbers of weights of the sections that have any."""
HEADER = np.array([0, 2, 0], "<i4").tobytes() + np.array([7], "<u8").tobytes()


def numbers(count: int = sum(COUNTS)) -> bytes:
    return (0.1 * np.random.default_rng(0).random(count)).astype("<f4").tobytes()


def files(text: str = YOLO, weights: bytes | None = None) -> tuple[Path, Path]:
    Path("net.cfg").write_text(text)
    Path("net.weights").write_bytes(HEADER + numbers() if weights is None else weights)
    return Path("net.cfg"), Path("net.weights")


def refused(text: str = YOLO, weights: bytes | None = None) -> str:
    with pytest.raises(AnyLayerError) as error:
        anylayer.read(*files(text, weights))
    return str(error.value)


def test_network_is_read() -> None:
    net = anylayer.read(*files())
    assert {name: kind and kind.shape for name, kind in net.inputs.items()} == {"data": (1, 3, 64, 32)}
    assert {name: kind and kind.shape for name, kind in net.outputs.items()} == {
        "yolo_3": (1024, 7), "yolo_7": (4096, 7),
    }  # fmt: skip
    names = ["conv_0", "pool_1", "conv_2", "yolo_3", "concat_4", "upsample_5", "conv_6", "yolo_7"]
    assert [node.name for node in net.network.nodes] == names
    assert net.network.nodes[4].inputs == ["pool_1"] and net.network.nodes[7].inputs == ["conv_6", "data"]
    assert net.network.nodes[0].blob_names == ["biases", "scale factors", "means", "variances", "weights"]
    assert net.network.nodes[0].lines["options.filters"] == 10


def test_weights_are_read_in_the_order_of_the_file() -> None:
    net = anylayer.read(*files())
    stored = np.frombuffer(numbers(), np.float32)
    flat = [blob.reshape(-1) for node in net.network.nodes for blob in node.blobs]
    assert np.array_equal(np.concatenate(flat), stored)
    assert net.network.nodes[0].blobs[4].shape == (6, 3, 3, 3)


@pytest.mark.parametrize(("version", "seen"), [((0, 1, 0), "<u4"), ((0, 2, 5), "<u8"), ((1, 0, 0), "<u8")])
def test_size_of_the_header_depends_on_the_version(version: tuple[int, int, int], seen: str) -> None:
    header = np.array(version, "<i4").tobytes() + np.array([7], seen).tobytes()
    net = anylayer.read(*files(weights=header + numbers()))
    assert net.network.nodes[0].blobs[0][0] == np.frombuffer(numbers(), np.float32)[0]


@pytest.mark.parametrize(
    ("missing", "where"),
    [
        (1, "net.cfg:38: layer 'conv_6' (convolutional): the weights file ends in its weights: it has 83 of 84"),
        (COUNTS[2], "layer 'conv_6' (convolutional): the weights file ends in its biases: it has 0 of 14 numbers"),
        (
            sum(COUNTS) - 7,
            "layer 'conv_0' (convolutional): the weights file ends in its scale factors: it has 1 of 6",
        ),
    ],
)
def test_truncated_weights_are_refused(missing: int, where: str) -> None:
    text = refused(weights=HEADER + numbers(sum(COUNTS) - missing))
    assert text.startswith("net.weights: ") and where in text


def test_longer_weights_are_refused() -> None:
    text = refused(weights=HEADER + numbers(sum(COUNTS) + 3))
    assert text == (
        "net.weights: the file has 3 numbers more than the network, which ends in net.cfg:44: layer 'yolo_7' "
        "(yolo)"
    )


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (b"", "the file has 0 bytes, which is not a whole header"),
        (HEADER[:18], "its 18 bytes are not a header and numbers"),
        (HEADER + numbers() + b"xy", "bytes are not a header and numbers"),
        (np.array([-1, 2, 0], "<i4").tobytes() + numbers(), "this is not a weights file: its version is -1.2"),
    ],
)
def test_other_weights_are_refused(weights: bytes, text: str) -> None:
    assert text in refused(weights=weights)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("width=32", "width=0", "net.cfg:4: [net] needs 'width', an integer of at least 1, got '0'"),
        ("channels=3\n", "", "net.cfg:2: [net] needs 'channels', an integer of at least 1, got ''"),
        ("layers = -3", "layers = 4", "net.cfg:32: layer 'concat_4' (route): 'layers' names section 4, but the 4"),
        ("layers = -3", "layers = -5", "'layers' names section -5"),
        ("layers = -3", "layers = last", "'layers' must be numbers of sections, got 'last'"),
        ("filters=6", "filters=6\nfilters=8", "net.cfg:11: option 'filters' is given twice"),
        ("filters=6", "filters", "net.cfg:10: 'filters' is not an option 'name=value'"),
        ("filters=6", "filters=", "net.cfg:10: 'filters=' is not an option 'name=value'"),
        ("filters=6", "filters=six", "parameter 'filters': must be an integer, got 'six'"),
        ("activation=leaky", "activation=leaky # or relu", "net.cfg:14: a comment must have its own line"),
        ("[maxpool]", "[max pool!]", "net.cfg:16: '[max pool!]' is not the name of a section"),
    ],
)  # fmt: skip
def test_wrong_config_is_refused(old: str, new: str, text: str) -> None:
    assert old in YOLO
    with pytest.raises(AnyLayerError) as error:
        anylayer.read(files(YOLO.replace(old, new, 1))[0]).fill()
    assert text in str(error.value)


def test_network_without_sections_is_refused() -> None:
    assert "it has 0 sections besides [net]" in refused("[net]\nwidth=1\n")


def test_comments_spaces_and_repeated_options_mean_nothing() -> None:
    text = YOLO.replace("size=2", " size = 2 \n;old\nsize=2").replace("stride=2", "stride=2#half", 1)
    first, other = (anylayer.read(*files(t)).network.nodes[1].params for t in (YOLO, text))
    assert first == other


def test_anchors_beyond_num_have_no_effect() -> None:
    x = np.random.default_rng(1).random((1, 3, 64, 32)).astype(np.float32)
    texts = YOLO, YOLO.replace("23,27", "23,27, 1,2")
    first, other = (anylayer.read(*files(text)).compile("numpy")({"data": x})["yolo_3"] for text in texts)
    assert np.array_equal(first, other)


def test_training_options_of_net_are_not_read() -> None:
    text = YOLO.replace("height=64", "height=64\ndecay=0.1\ndecay=0.01\npolicy=steps # of training")
    assert anylayer.read(*files(text)).inputs["data"].shape == (1, 3, 64, 32)
    assert "option 'height' is given twice" in refused(YOLO.replace("height=64", "height=64\nheight=32"))


@pytest.mark.parametrize("text", ["[metadata]\nname = x\n", "; settings\n[core]\nbare = false\n"])
def test_other_configuration_files_are_named(text: str) -> None:
    Path("setup.cfg").write_text(text)
    with pytest.raises(FileError, match=r"a configuration file \(INI\).*A Darknet network \(.cfg\) begins with a"):
        anylayer.read("setup.cfg")


def test_weights_alone_are_named() -> None:
    with pytest.raises(FileError, match=r"weights of a Darknet network, judged by its name.*Give the network"):
        anylayer.read(files()[1])


VECTOR = "[net]\ninputs=4\n[connected]\noutput=2\nactivation=linear\n"
STORED = np.array([7, 8, *range(8)], np.float32)


@pytest.mark.parametrize(
    ("version", "seen", "rows"),
    [
        ((0, 2, 0), "<u8", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ((1000, 2, 0), "<u4", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ((1001, 0, 0), "<u4", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        (tuple(np.array([0.001, 0.9, 0.0005], "<f4").view("<i4")), "<u4", [[0, 2, 4, 6], [1, 3, 5, 7]]),
    ],
)
def test_matrices_of_old_files_are_transposed(version: Any, seen: str, rows: Any) -> None:
    header = np.array(version, "<i4").tobytes() + np.array([7], seen).tobytes()
    net = anylayer.read(*files(VECTOR, header + STORED.tobytes()))
    assert [blob.tolist() for blob in net.network.nodes[0].blobs] == [[7, 8], rows]


def test_other_weights_of_old_files_are_not_transposed() -> None:
    header = np.array([1001, 0, 0, 7], "<i4").tobytes()
    blobs = [
        blob for node in anylayer.read(*files(weights=header + numbers())).network.nodes for blob in node.blobs
    ]
    assert np.array_equal(np.concatenate([b.reshape(-1) for b in blobs]), np.frombuffer(numbers(), np.float32))


def test_inputs_without_a_map() -> None:
    net = anylayer.read(files(VECTOR)[0])
    assert net.inputs["data"].shape == (1, 4) and not net.network.preprocess
    size = "width=2\nheight=2\nchannels=1\n"
    assert anylayer.read(files(VECTOR.replace("inputs", f"{size}inputs"))[0]).inputs["data"].shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("inputs=0", "[net] needs 'inputs', an integer of at least 1, got '0'"),
        ("inputs=5\nwidth=2\nheight=2\nchannels=1", "[net] has inputs=5, but its sizes make 4 values"),
        ("inputs=4\nwidth=2", "[net] needs 'channels', an integer of at least 1, got ''"),
    ],
)
def test_wrong_inputs_are_refused(options: str, text: str) -> None:
    assert text in refused(VECTOR.replace("inputs=4", options))


LSTM = "[net]\ninputs=2\n[lstm]\noutput=3\n"
LSTM_NUMBERS = np.arange(84, dtype=np.float32)
OF_FORK = np.array([0, 2, 5], "<i4").tobytes() + HEADER[12:]


def test_revision_of_the_weights_tells_the_fork() -> None:
    net = anylayer.read(*files(LSTM, OF_FORK + LSTM_NUMBERS.tobytes()))
    assert net.network.dialect == "alexeyab" and net.network.nodes[0].blob_names[1] == "weights of wf"
    assert (
        anylayer.read(*files(LSTM, OF_FORK + LSTM_NUMBERS.tobytes()), dialect="pjreddie")
        .network.nodes[0]
        .blob_names[1]
        == "weights of wi"
    )


def test_order_of_weights_is_not_guessed() -> None:
    net = anylayer.read(*files(LSTM, HEADER + LSTM_NUMBERS.tobytes()))
    assert any("the weights of 'lstm_0' and of the sections after it are not read" in n for n in net.network.notes)
    rule = r"'lstm' can mean 2 things, give dialect=...: pjreddie: .*; alexeyab:"
    with pytest.raises(AnyLayerError, match=rule):
        net.compile("onnxruntime")


def test_other_dialects_are_refused() -> None:
    with pytest.raises(
        AnyLayerError, match=r"no dialect 'alexeyb'; did you mean 'alexeyab'\?.*: alexeyab, opencv, pj"
    ):
        anylayer.read(files(LSTM)[0], dialect="alexeyb")


def test_samples_continue_one_sequence() -> None:
    net = anylayer.read(*files(LSTM, OF_FORK + (0.01 * LSTM_NUMBERS).tobytes()))
    x = np.random.default_rng(3).standard_normal((4, 2)).astype(np.float32)
    whole = net.compile("numpy", shapes={"data": (4, 2)})({"data": x})["lstm_0"]
    first = net.compile("numpy", shapes={"data": (3, 2)})({"data": x[:3]})["lstm_0"]
    np.testing.assert_allclose(whole[:3], first, rtol=1e-6)
    assert np.abs(whole[1:] - net.compile("numpy")({"data": x[1:2]})["lstm_0"]).max() > 0.01
    assert any("its samples are the steps of one sequence" in note for note in net.inspect().notes)


TREE = "[net]\ninputs=3\n[softmax]\ntree={}\n"


@pytest.mark.parametrize("name", ["data/9k.tree", "/usr/share/9k.tree", "..\\9k.tree", "9k.tree"])
def test_tree_lies_beside_the_network(name: str) -> None:
    Path("9k.tree").write_text("a -1\nb -1\nc 0\n")
    assert anylayer.read(files(TREE.format(name))[0]).network.nodes[0].params["options"]["tree"] == [-1, -1, 0]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            None,
            "layer 'softmax_0' (softmax): the tree of classes 'data/9k.tree' does not exist: put '9k.tree' beside",
        ),
        ("\n", "9k.tree: it has 0 classes; 1 to 50000 are read"),
        (100_001 * "a -1\n", "9k.tree: it has 100001 classes; 1 to 50000 are read"),
        ("a -1\nb 1\n", "9k.tree:2: 'b 1' must be a class and the number of an earlier class, its parent, or -1"),
        ("a -1\nb -2\n", "9k.tree:2: 'b -2' must be a class and the number of an earlier class"),
        ("a -1\nb x\n", "9k.tree:2: 'b x' must be a class and the number of an earlier class"),
        ("a -1\nb 0\nc -1\n", "the children of each class of the tree must be next to each other, and those with"),
        ("a -1\nb -1\n", "the tree has 2 classes, but there are 3 values"),
    ],
)
def test_wrong_trees_are_refused(content: str | None, text: str) -> None:
    if content is not None:
        Path("9k.tree").write_text(content)
    with pytest.raises(AnyLayerError) as error:
        anylayer.read(files(TREE.format("data/9k.tree"))[0]).fill().compile("numpy")
    assert text in str(error.value)


def test_tree_does_not_lead_out_of_the_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other") / "9k.tree"
    other.write_text("a -1\n")
    Path("9k.tree").symlink_to(other)
    assert "'9k.tree' is a link that leads out of the model's folder" in refused(TREE.format("9k.tree"))


def test_missing_weights_are_named() -> None:
    with pytest.raises(FileError, match=r"net\.cfg: there is no weights file missing\.weights"):
        anylayer.read(files()[0], "missing.weights")


MIXED = YOLO.replace("[upsample]\nstride=2\n", "[mixer]\nrate=0.5\nfrom=0\n")


def test_unknown_section_is_reported_and_stops_the_weights() -> None:
    net = anylayer.read(*files(MIXED))
    mixer = net.network.nodes[5]
    assert [node.name for node in net.unknown] == ["mixer_5"]
    assert mixer.inputs == ["concat_4", "conv_0"] and mixer.params == {"options": {"rate": 0.5}}
    assert any(
        "the weights of 'mixer_5' and of the sections after it are not read" in n for n in net.network.notes
    )
    assert net.network.nodes[2].blobs and not net.network.nodes[6].blobs
    with pytest.raises(UnknownLayers, match="unknown layer type: 'mixer'"):
        net.compile()


def test_class_of_the_user_computes_an_unknown_section() -> None:
    def mixer(x: Any, other: Any, *, rate: float, **fields: Any) -> Any:
        return other * np.float32(rate) + x.mean()

    paths = files(MIXED)
    x = np.random.default_rng(1).random((1, 3, 64, 32)).astype(np.float32)
    first, other = (
        anylayer.read(*paths, layers={"mixer": mixer}).compile(engine)({"data": x})
        for engine in ("numpy", "onnxruntime")
    )
    np.testing.assert_allclose(other["yolo_7"], first["yolo_7"], rtol=1e-5, atol=1e-5)


def test_class_of_the_user_takes_weights_from_the_file() -> None:
    @layer("mixer")
    class Mixer(Layer):
        """Multiply each channel of the second input."""

        message = "options"
        rate: float = field(0, "float")

        def forward(self, x: Any, other: Any) -> Any:
            return other * self.blob(0, (other.shape[1], 1, 1), what="factors")

    net = anylayer.read(*files(MIXED, HEADER + numbers(sum(COUNTS) + 6)), layers=[("mixer", Mixer)])
    stored = np.frombuffer(numbers(sum(COUNTS) + 6), np.float32)
    start = COUNTS[0] + COUNTS[1]
    assert np.array_equal(net.network.nodes[5].blobs[0].reshape(-1), stored[start : start + 6])


@pytest.mark.parametrize("option", ["", "letter_box=0", "letter_box=1"])
def test_letter_box_is_how_images_are_read(option: str) -> None:
    net = anylayer.read(*files(YOLO.replace("channels=3", f"channels=3\n{option}")))
    own = net.network.preprocess["data"]
    assert net.network.channel_orders == {"data": "RGB"} and own.scale == 1 / 255
    assert own.letterbox == (option == "letter_box=1")


def test_maps_before_the_boxes_are_outputs_on_request() -> None:
    x = np.random.default_rng(0).random((1, 3, 64, 32)).astype(np.float32)
    maps = anylayer.read(*files()).compile("numpy", outputs=["conv_2", "conv_6"])(x)
    assert {name: y.shape for name, y in maps.items()} == {"conv_2": (1, 14, 32, 16), "conv_6": (1, 14, 64, 32)}
    raw = anylayer.read(*files(), raw=True)
    assert not any(node.type == "yolo" for node in raw.network.nodes)
    results = raw.compile("numpy")(x)
    assert [*results] == [*maps] and all(np.array_equal(results[name], y) for name, y in maps.items())


def test_batches_and_other_sizes_run() -> None:
    net = anylayer.read(*files())
    x = np.random.default_rng(1).random((2, 3, 32, 64)).astype(np.float32)
    whole = net.compile("numpy", shapes={"data": x.shape})({"data": x})
    alone = net.compile("numpy", shapes={"data": (1, 3, 32, 64)})({"data": x[1:]})
    assert whole["yolo_7"].shape == (2, 4096, 7)
    np.testing.assert_allclose(whole["yolo_7"][1], alone["yolo_7"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suffix", [".onnx", ".xml", ".prototxt"])
def test_network_is_converted(suffix: str) -> None:
    options = {"dialect": "ssd"} if suffix == ".prototxt" else {}
    conversion = anylayer.read(*files()).write(f"out{suffix}", **options)
    assert conversion.files and {check.name for check in conversion.checks} == {"yolo_3", "yolo_7"}


def test_open_sizes_are_converted() -> None:
    conversion = anylayer.read(*files()).write("out.onnx", shapes={"data": ("1", 3, "32*h", "32*w")})
    assert conversion.files
    x = np.random.default_rng(1).random((1, 3, 96, 32)).astype(np.float32)
    want = anylayer.read(*files()).compile("numpy", shapes={"data": x.shape})({"data": x})
    got = anylayer.read("out.onnx").compile("onnxruntime", shapes={"data": x.shape})({"data": x})
    np.testing.assert_allclose(got["yolo_3"], want["yolo_3"], rtol=1e-4, atol=1e-5)
