"""Weights are assigned to layers: by name, shared, and from all kinds of files."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from anylayer.errors import AnyLayerError, DialectError, FileError, NetworkError
from anylayer.network import Network
from anylayer.readers.caffe import read
from anylayer.readers.caffe.preprocess import read_mean
from tests.readers.files import (
    INPUT,
    blob,
    doubles,
    floats,
    integer,
    layer,
    message,
    node,
    read_net,
    shape,
    string,
)


def ip(name: str, bottom: str = "data", more: str = "") -> str:
    return (
        f"layer {{ name: '{name}' type: 'InnerProduct' bottom: '{bottom}' top: '{name}' {more} "
        "inner_product_param { num_output: 2 } }\n"
    )


def weights(network: Network, name: str) -> list[list[Any]]:
    return [b.tolist() for b in node(network, name).blobs]


def refused(text: str, data: Any, error: type[AnyLayerError] = FileError) -> str:
    with pytest.raises(error) as caught:
        read_net(INPUT + text, data)
    return str(caught.value)


def test_weights_are_matched_by_name() -> None:
    data = layer("b", blob([2], [1, 2]), blob([1], [3])) + layer("gone", blob([1], [4])) + layer("a")
    network = read_net(INPUT + ip("a") + ip("b"), data)
    assert weights(network, "a") == []
    assert weights(network, "b") == [[1.0, 2.0], [3.0]]
    assert network.weights == "net.caffemodel"


def test_first_layer_with_a_name_gets_the_weights() -> None:
    data = layer("a", blob([1], [1])) + layer("a", blob([1], [2]))
    network = read_net(INPUT + ip("a") + ip("a", "a").replace("top: 'a'", "top: 'z'"), data)
    assert [n.name for n in network.nodes] == ["a", "a_1"]
    assert weights(network, "a") == [[2.0]]
    assert weights(network, "a_1") == []


def test_network_without_weights() -> None:
    network = read_net(INPUT + ip("a"))
    assert weights(network, "a") == []
    assert network.weights == ""


def test_doubles_become_float32() -> None:

    network = read_net(INPUT + ip("a"), layer("a", message(7, shape(2), doubles(8, [0.1, 2]))))
    assert node(network, "a").blobs[0].dtype == np.float32
    assert node(network, "a").blobs[0][0] == np.float32(0.1)


def test_weights_of_another_network_are_refused() -> None:
    data = layer("x", blob([1], [1])) + layer("y", blob([1], [1])) + layer("z", blob([1], [1])) + layer("a")
    assert refused(ip("a"), data + layer("w", blob([1], [1]))) == (
        "net.caffemodel: none of its 4 layers with weights ('x', 'y', 'z' and 1 more) is in the network, "
        "whose layers are 'a'. Weights are matched by layer name"
    )


def test_damaged_blob_is_named() -> None:
    data = layer("a", blob([1], [1]), blob([3], [1, 2]))
    assert refused(ip("a"), data) == (
        "net.caffemodel: layer 'a': blob 1: has shape (3,), which is 3 values, but 2 are stored"
    )


def test_damaged_blob_of_an_absent_layer_is_ignored() -> None:
    data = layer("gone", blob([3], [1, 2])) + layer("a", blob([1], [1]))
    assert weights(read_net(INPUT + ip("a"), data), "a") == [[1.0]]


def test_values_too_large_for_float32_become_infinite() -> None:

    network = read_net(INPUT + ip("a"), layer("a", message(7, shape(1), doubles(8, [1e300]))))
    assert weights(network, "a") == [[np.inf]]
    assert weights(read_net(INPUT + ip("a", more="blobs { double_data: -1e300 }")), "a") == [-np.inf]


# ---- shared parameters

SHARED = INPUT + ip("a", more="param { name: 'w' } param { name: 'b' }") + ip("c", more="param { name: 'w' }")


def test_last_values_of_a_shared_parameter_are_used() -> None:
    data = layer("a", blob([2], [1, 2]), blob([1], [5])) + layer("c", blob([2], [3, 4]), blob([1], [6]))
    network = read_net(SHARED, data)
    assert weights(network, "a") == [[3.0, 4.0], [5.0]]
    assert weights(network, "c") == [[3.0, 4.0], [6.0]]
    assert np.shares_memory(node(network, "a").blobs[0], node(network, "c").blobs[0])
    other_way = read_net(SHARED, layer("c", blob([2], [3, 4]), blob([1], [6])) + layer("a", blob([2], [1, 2])))
    assert weights(other_way, "c") == [[1.0, 2.0], [6.0]]


def test_shared_parameter_of_a_layer_without_weights() -> None:
    network = read_net(SHARED, layer("a", blob([2], [1, 2]), blob([1], [5])))
    assert weights(network, "c") == [[1.0, 2.0]]


def test_shapes_of_a_shared_parameter_must_match() -> None:
    data = layer("a", blob([2], [1, 2])) + layer("c", blob([2, 1], [3, 4]))
    assert refused(SHARED.removeprefix(INPUT), data, NetworkError) == (
        "deploy.prototxt:2: layer 'a' (InnerProduct): param 'w' is shared with layer 'a'. Its values have shape "
        "(2, 1), but this layer's blob has (2,). With share_mode PERMISSIVE only the counts must match"
    )


def test_leading_ones_of_a_shared_shape_are_ignored() -> None:
    data = layer("a", blob([2], [1, 2])) + layer("c", blob([1, 1, 1, 2], [3, 4]))
    network = read_net(SHARED, data)
    assert weights(network, "a") == [[3.0, 4.0]]
    assert weights(network, "c") == [[[[[3.0, 4.0]]]]]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "1"])
def test_permissive_sharing_needs_equal_counts(mode: str) -> None:
    text = INPUT + ip("a", more=f"param {{ name: 'w' share_mode: {mode} }}") + ip("c", more="param { name: 'w' }")
    data = layer("c", blob([2, 2], [1, 2, 3, 4])) + layer("a", blob([4], [5, 6, 7, 8]))
    with pytest.raises(NetworkError, match="layer 'c' \\(InnerProduct\\): param 'w' is shared with layer 'a'"):
        read_net(text, data)
    network = read_net(text.replace("'w' }", f"'w' share_mode: {mode} }}"), data)
    assert weights(network, "c") == [[[5.0, 6.0], [7.0, 8.0]]]


def test_unknown_share_mode_is_refused() -> None:
    text = ip("a", more="param { name: 'w' share_mode: LOOSE }")
    assert refused(text, None) == "deploy.prototxt:2: 'share_mode' must be STRICT or PERMISSIVE, got LOOSE"


def test_missing_blob_is_refused() -> None:
    text = ip("a", more="param { } param { name: 'b' }") + ip("c", more="param { } param { name: 'b' }")
    assert refused(text, layer("a", blob([2], [1, 2]), blob([1], [5])), NetworkError) == (
        "deploy.prototxt:3: layer 'c' (InnerProduct): the weights have blob 1 of this layer, but not blob 0"
    )


# ---- weights as text

TEXT_BLOBS = (
    "blobs { shape { dim: 2 } data: 1 data: 2 } blobs { num: 1 channels: 1 height: 1 width: 1 double_data: 3 }"
)


def test_prototxt_may_contain_blobs() -> None:
    network = read_net(
        INPUT + ip("a", more=TEXT_BLOBS) + ip("b", more="blobs { data: 4 }"), layer("b", blob([1], [9]))
    )
    assert weights(network, "a") == [[1.0, 2.0], [[[[3.0]]]]]
    assert weights(network, "b") == [[9.0]]


def test_weights_file_may_be_text() -> None:
    Path("weights.prototxt").write_text(f"layer {{ name: 'a' type: 'InnerProduct' {TEXT_BLOBS} }}")
    assert weights(read_net(INPUT + ip("a"), "weights.prototxt"), "a") == [[1.0, 2.0], [[[[3.0]]]]]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("blobs { shape { dim: 3 } data: 1 }", "blob 0: deploy.prototxt:2: a blob with shape (3,) has 1 value"),
        ("blobs { shape { dim: -1 } }", "blob 0: deploy.prototxt:2: a blob with shape (-1,) has 0 values"),
        ("blobs: 3", "blob 0: 'blobs' must be a message { ... }, got 3"),
    ],
)
def test_wrong_blobs_of_a_text_are_refused(more: str, message: str) -> None:
    found = refused(ip("a", more=more), None)
    assert found == f"deploy.prototxt:2: layer 'a' (InnerProduct): {message}"


# ---- HDF5


def write_hdf5(datasets: dict[str, Any], file: str = "net.caffemodel.h5") -> str:
    with h5py.File(file, "w") as h5:
        for name, values in datasets.items():
            h5.create_dataset(name, data=values)
    return file


def test_hdf5_weights_are_read() -> None:
    file = write_hdf5(
        {
            "data/a/0": np.float32([[1, 2]]),
            "data/a/1": np.float64([3]),
            "data/block/b/0": np.float32([4]),
            "diff/a/0": np.float32([9]),
        }
    )
    network = read_net(INPUT + ip("a") + ip("block/b"), file)
    assert weights(network, "a") == [[[1.0, 2.0]], [3.0]]
    assert weights(network, "block/b") == [[4.0]]
    assert {b.dtype for n in network.nodes for b in n.blobs} == {np.dtype(np.float32)}


def test_hdf5_omits_shared_blobs() -> None:
    file = write_hdf5({"data/a/0": np.float32([1, 2]), "data/a/1": np.float32([5]), "data/c/1": np.float32([6])})
    network = read_net(SHARED, file)
    assert weights(network, "c") == [[1.0, 2.0], [6.0]]
    assert refused(ip("c"), file, NetworkError) == (
        "deploy.prototxt:2: layer 'c' (InnerProduct): the weights have blob 1 of this layer, but not blob 0"
    )


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        (
            {"weights": [1.0]},
            "net.caffemodel.h5: the file has no group 'data', so it does not contain Caffe weights",
        ),
        (
            {"model_weights/conv/kernel": [1.0]},
            "net.caffemodel.h5: the file has no group 'data', so it does not contain Caffe weights (this is a "
            "Keras model)",
        ),
        (
            {"data/a/kernel": [1.0]},
            "net.caffemodel.h5: layer 'a': the name of dataset 'kernel' is not the index of a blob",
        ),
        (
            {"data/a/0": np.int32([1])},
            "net.caffemodel.h5: layer 'a': blob 0 has dtype int32, expected float or double",
        ),
    ],
)
def test_wrong_hdf5_files_are_refused(datasets: dict[str, Any], message: str) -> None:
    assert refused(ip("a"), write_hdf5(datasets)) == message


def test_hdf5_with_a_huge_claimed_shape_is_refused() -> None:
    with h5py.File("net.caffemodel.h5", "w") as h5:
        h5.create_dataset("data/a/0", (1 << 40,), np.float32, chunks=(1 << 20,))
    assert refused(ip("a"), "net.caffemodel.h5") == (
        "net.caffemodel.h5: layer 'a': blob 0 claims shape (1099511627776,), 0 bytes are stored in this file"
    )
    with h5py.File("net.caffemodel.h5", "w") as h5:
        h5.create_dataset("data/a/0", (1 << 40,), np.float32)
    assert "blob 0 claims shape (1099511627776,), 0 bytes are stored" in refused(ip("a"), "net.caffemodel.h5")


def test_hdf5_with_another_compression_is_refused() -> None:
    with h5py.File("net.caffemodel.h5", "w") as h5:
        h5.create_dataset("data/a/0", data=np.ones((4, 4), np.float32), chunks=(2, 2), compression="lzf")
    message = "compressed with filter lzf; supported: deflate (gzip), shuffle, Fletcher32; write the file again"
    assert message in refused(ip("a"), "net.caffemodel.h5")


def test_hdf5_with_the_latest_layout_is_refused() -> None:
    with h5py.File("net.caffemodel.h5", "w", libver="latest") as h5:
        h5.create_dataset("data/a/0", data=np.ones((4, 4), np.float32), chunks=(2, 2), compression="gzip")
    message = "or its arrays have the layout of libver='latest'; write the file again with h5py.File(path, 'w')"
    assert message in refused(ip("a"), "net.caffemodel.h5")


def test_hdf5_links_to_other_files_are_not_followed() -> None:
    write_hdf5({"data/a/0": np.float32([1])}, "other.h5")
    with h5py.File("net.caffemodel.h5", "w") as h5:
        h5["data"] = h5py.ExternalLink("other.h5", "/data")
    assert refused(ip("a"), "net.caffemodel.h5").startswith(
        "net.caffemodel.h5: this is not a readable HDF5 file: a part of it is damaged, or a link leads to another "
        "file, which is not followed"
    )
    Path("raw").write_bytes(bytes(4))
    with h5py.File("net.caffemodel.h5", "w") as h5:
        h5.create_dataset("data/a/0", (1,), np.float32, external=[("raw", 0, 4)])
    assert refused(ip("a"), "net.caffemodel.h5") == (
        "net.caffemodel.h5: layer 'a': blob 0 claims shape (1,), 0 bytes are stored in this file"
    )


def test_truncated_hdf5_file_is_refused() -> None:
    file = Path(write_hdf5({"data/a/0": np.float32([1])}))
    file.write_bytes(file.read_bytes()[:700])
    assert refused(ip("a"), str(file)).startswith("net.caffemodel.h5: this is not a readable HDF5 file: ")


def test_hdf5_needs_an_optional_package(monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_hdf5({"data/a/0": np.float32([1])})
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name == "pyfive":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refused(ip("a"), file) == "net.caffemodel.h5: to read HDF5 files: pip install pyfive"


# ---- a caffemodel alone


def binary_net() -> bytes:
    """Return a network: Input, Convolution, a Split that Caffe inserted, a ReLU in place, and Eltwise."""
    conv = message(
        106, integer(1, 4), integer(4, 3), message(7, string(1, "xavier")), integer(3, 1), integer(3, 2)
    )
    eltwise = message(110, integer(1, 0))
    split = "c_conv_0_split"
    return b"".join(
        [
            string(1, "net"),
            layer("in", string(4, "data"), message(143, message(1, message(1, b"\1\3\7\7"))), type_="Input"),
            layer(
                "conv",
                string(3, "data"),
                string(4, "c"),
                conv,
                blob([1], [5]),
                integer(10, 1),
                type_="Convolution",
            ),
            layer("relu", string(3, "c"), string(4, "c"), type_="ReLU"),
            layer(split, string(3, "c"), string(4, split + "_0"), string(4, split + "_1"), type_="Split"),
            layer(
                "sum", string(3, split + "_0"), string(3, split + "_1"), string(4, "y"), eltwise, type_="Eltwise"
            ),
        ]
    )


def read_binary_net(data: bytes, **options: Any) -> Network:
    Path("net.caffemodel").write_bytes(data)
    return read(Path("net.caffemodel"), **options)


def test_caffemodel_without_prototxt() -> None:
    network = read_binary_net(binary_net())
    assert [(n.name, n.inputs, n.outputs) for n in network.nodes] == [
        ("conv", ["data"], ["c@conv"]),
        ("relu", ["c@conv"], ["c"]),
        ("sum", ["c", "c"], ["y"]),
    ]
    assert node(network, "conv").params == {
        "convolution_param": {
            "num_output": 4,
            "kernel_size": 3,
            "weight_filler": {"type": "xavier"},
            "pad": [1, 2],
        }
    }
    assert node(network, "sum").params == {"eltwise_param": {"operation": "PROD"}}
    assert weights(network, "conv") == [[5.0]]
    assert network.name == "net"
    assert str(network.inputs["data"]) == "float32[1, 3, 7, 7]"


def test_v1_caffemodel_without_prototxt() -> None:
    data = string(3, "data") + b"".join(integer(4, d) for d in (1, 3, 7, 7))
    pool = message(19, integer(1, 1), integer(2, 3), integer(3, 2))
    data += message(2, string(4, "p"), integer(5, 17), string(2, "data"), string(3, "y"), pool, floats(7, [1]))
    (pooling,) = read_binary_net(data).nodes
    assert (pooling.type, pooling.params) == (
        "Pooling",
        {"pooling_param": {"pool": "AVE", "kernel_size": 3, "stride": 2}},
    )


def test_v0_caffemodel_without_prototxt() -> None:
    data = string(3, "data") + b"".join(integer(4, d) for d in (1, 3, 7, 7))
    conv = message(1, string(1, "c"), string(2, "conv"), integer(3, 4), integer(8, 3), integer(4, 0))
    data += message(2, conv, string(2, "data"), string(3, "y"))
    (found,) = read_binary_net(data).nodes
    assert (found.type, found.params) == (
        "Convolution",
        {"convolution_param": {"num_output": 4, "kernel_size": 3, "bias_term": 0}},
    )


def test_last_value_of_a_singular_field_is_used() -> None:
    data = layer("i", string(4, "x"), type_="Input")
    params = message(123, b"\x0d" + np.float32(0.5).tobytes())
    params += message(123, b"\x0d" + np.float32(0.25).tobytes())
    data += layer("r", string(3, "x"), string(4, "y"), params, type_="ReLU")
    assert node(read_binary_net(data), "r").params == {"relu_param": {"negative_slope": 0.25}}


def one(type_: str, *params: bytes) -> bytes:
    return layer("i", string(4, "x"), type_="Input") + layer(
        "a", string(3, "x"), string(4, "y"), *params, type_=type_
    )


@pytest.mark.parametrize(
    ("data", "message_"),
    [
        (
            one("Mystery", message(199, integer(1, 1))),
            "net.caffemodel: layer 'a': the meaning of parameter message 199 is unknown. Give the prototxt, or "
            "the fork's caffe.proto with proto=...",
        ),
        (
            one("ReLU", message(123, integer(9, 1))),
            "net.caffemodel: layer 'a': field 9 of relu_param is unknown. Give the prototxt, or the fork's "
            "caffe.proto with proto=...",
        ),
        (
            one("ReLU", message(123, integer(1, 1))),
            "net.caffemodel: layer 'a': field 1 ('negative_slope') at byte 38 has wire type 0, expected 5: "
            "the file was written with another caffe.proto. Give the prototxt, or the fork's caffe.proto with "
            "proto=...",
        ),
        (
            one("Slice", message(126, message(2, bytes(655361)))),
            "net.caffemodel: layer 'a': 'slice_point' has 655361 bytes of packed numbers; the limit is 655360",
        ),
        (
            message(2, string(4, "a"), integer(5, 41)),
            "net.caffemodel: layer type number 41 is not one of Caffe's, and differs between forks. Give the "
            "fork's "
            "caffe.proto with proto=...",
        ),
        (
            string(1, "net") + string(3, "x"),
            "net.caffemodel: this is not a network: it has no layer, only input, name",
        ),
    ],
)
def test_ambiguous_caffemodels_are_refused(data: bytes, message_: str) -> None:
    with pytest.raises(FileError) as caught:
        read_binary_net(data)
    assert str(caught.value) == message_


def test_messages_of_other_layers_are_skipped() -> None:
    found = node(read_binary_net(one("ReLU", message(107, string(1, "db")), message(133))), "a")
    assert found.params == {}


def test_field_number_that_two_forks_use_differently() -> None:
    conv = message(10, integer(1, 4), integer(4, 3), integer(18, 2))
    data = string(3, "data") + message(2, string(4, "a"), integer(5, 4), string(2, "data"), string(3, "y"), conv)
    with pytest.raises(DialectError) as caught:
        read_binary_net(data)
    assert str(caught.value) == (
        "net.caffemodel: layer 'a': 'Convolution' has different parameters in different forks (deeplab), "
        "give dialect=..."
    )
    found = node(read_binary_net(data, dialect="deeplab"), "a").params["convolution_param"]
    assert found == {"num_output": 4, "kernel_size": 3, "hole_h": 2}


def test_dialect_selects_the_meaning_of_a_field_number() -> None:
    params = message(149, b"\x0d" + np.float32(3).tobytes())
    assert node(read_binary_net(one("Upsample", params), dialect="caffe2onnx"), "a").params == {
        "upsample_param": {"scale": 3.0}
    }
    stride = node(read_binary_net(one("Reorg", message(147, integer(1, 2)))), "a").params
    assert stride == {"reorg_param": {"stride": 2}}


# ---- mean images


def test_mean_images_are_read() -> None:
    Path("mean.binaryproto").write_bytes(shape(2, 1, 2) + floats(5, [1, 2, 3, 4]))
    assert read_mean(Path("mean.binaryproto")).tolist() == [[[1.0, 2.0]], [[3.0, 4.0]]]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            shape(2, 2) + floats(5, [1, 2, 3, 4]),
            "a mean image must have shape (channels, height, width), got (2, 2)",
        ),
        (
            shape(3, 2, 1, 1) + floats(5, [0] * 6),
            "a mean image must have shape (channels, height, width), got (3, 2, 1, 1)",
        ),
        (shape(0), "this is not a mean image: it has no values"),
        (b"", "this is an empty file, not a mean image (.binaryproto)"),
        (layer("a"), "this is a Caffe model (binary), not a mean image (.binaryproto)"),
    ],
)
def test_wrong_mean_files_are_refused(data: bytes, text: str) -> None:
    Path("m.binaryproto").write_bytes(data)
    with pytest.raises(FileError) as caught:
        read_mean(Path("m.binaryproto"))
    assert str(caught.value) == f"m.binaryproto: {text}"


def test_missing_mean_file_is_refused() -> None:
    with pytest.raises(FileError, match=r"^m: there is no such mean file$"):
        read_mean(Path("m"))
