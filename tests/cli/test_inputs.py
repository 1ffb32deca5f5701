"""The options -i and -o: reading inputs and writing outputs."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from anylayer import AnyLayerError
from anylayer.cli.arrays import read_npy, read_npz
from anylayer.cli.inputs import ImageOptions, Loader, feed
from anylayer.cli.items import Item, items_of
from anylayer.cli.means import parse_mean
from anylayer.cli.results import ShowOptions
from anylayer.cli.targets import OutOption
from anylayer.network import Network, Preprocess, TensorType


@pytest.fixture
def folder(tmp_path):
    for name, color in (("b.png", (10, 20, 30)), ("a.jpg", (0, 0, 0)), ("c.bmp", (1, 2, 3))):
        Image.new("RGB", (4, 2), color).save(tmp_path / name)
    np.save(tmp_path / "x.npy", np.ones((1, 3, 2, 4), np.float32))
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def net_of(source="net.prototxt", preprocess=None, **inputs):
    """Return a net without nodes, which suffices for reading inputs."""
    types = {n: TensorType(s) if s else None for n, s in inputs.items()}
    return SimpleNamespace(
        network=Network("n", "caffe", types, [], {}, source=str(source), preprocess=preprocess or {}),
        definitions={},
    )


def loader_of(net, **options):
    return Loader(net, net.network.inputs, ImageOptions(**options))


def test_image_has_layout_of_input(folder):
    net = net_of(data=(1, 2, 4, 3), other=(1, 3, 2, 4))
    net.network.layouts["data"] = "NHWC"
    loader = loader_of(net, mean="1,2,3", scale=(1.0, 10.0, 100.0))
    loaded = loader.load(Item({"data": folder / "b.png", "other": folder / "b.png"}))
    assert loaded.arrays["data"].shape == (1, 2, 4, 3) and loaded.arrays["data"].flags.c_contiguous
    assert_array_equal(loaded.arrays["data"][0, 0, 0], [29, 180, 700])
    assert_array_equal(loaded.arrays["other"], loaded.arrays["data"].transpose(0, 3, 1, 2))


def test_channels_last_input_is_detected_by_shape(folder):
    net = net_of(data=(1, 2, 4, 3))
    loader = loader_of(net)
    item = Item({"data": folder / "b.png"})
    assert loader.load(item).arrays["data"].shape == (1, 2, 4, 3)
    (line,) = loader.describe(item)
    assert line.endswith(", channels-last because of its shape")
    net.network.layouts["data"] = "NCHW"
    with pytest.raises(AnyLayerError, match="has 2"):
        loader_of(net).load(item)


def test_channels_last_input_of_open_size_is_detected_by_shape(folder):
    net = net_of(data=None)
    net.network.open["data"] = (1, None, None, 3)
    assert loader_of(net).load(Item({"data": folder / "b.png"})).arrays["data"].shape == (1, 2, 4, 3)


def test_channels_last_input_with_8_channels_refuses_images(folder):
    net = net_of(data=(1, 3, 8, 8))
    net.network.layouts["data"] = "NHWC"
    text = r"input 'data': an image has 1 or 3 channels, but this input float32\[1, 3, 8, 8\] has 8"
    with pytest.raises(AnyLayerError, match=text):
        loader_of(net).load(Item({"data": folder / "b.png"}))


def test_file_without_name_is_for_first_input(folder):
    (item,) = items_of([str(folder / "b.png")], ["data", "info"])
    assert item.sources == {"data": folder / "b.png"}
    assert (item.name, item.source) == ("b", str(folder / "b.png"))


def test_folder_stands_for_its_sorted_images_and_arrays(folder):
    items = items_of([str(folder)], ["data"])
    assert [i.name for i in items] == ["a", "b", "c", "x"]


def test_input_with_one_file_has_it_in_all_items(folder):
    specs = [f"data={folder / 'a.jpg'}", f"data={folder / 'b.png'}", "info=[2, 4, 1]"]
    items = items_of(specs, ["data", "info"])
    assert [i.name for i in items] == ["a", "b"]
    for item in items:
        assert_array_equal(item.sources["info"], [2, 4, 1])


@pytest.mark.parametrize("name", ["objects.npy", "objects.npz"])
def test_array_of_python_objects_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = np.array([{"a": 1}, None], dtype=object)
    np.save(name, objects) if name.endswith("y") else np.savez(name, data=objects)
    read = read_npy if name.endswith("y") else read_npz
    with pytest.raises(AnyLayerError, match="holds Python objects, which are not read; save it with a dtype"):
        read(Path(name))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dta=x.png", r"the network has no input 'dta'; did you mean 'data'\?; its inputs: data, info"),
        ("gone.png", "gone.png: there is no such file"),
        ("w.caffemodel", "w.caffemodel holds weights; an input is an image, .npy or .npz"),
        ("info=[1, oops]", r"values are a number or a list of numbers such as \[1, 2, 3\], got \[1, oops\]"),
    ],
)
def test_malformed_input_option_is_refused(spec, message):
    with pytest.raises(AnyLayerError, match=message):
        items_of([spec], ["data", "info"])


def test_empty_folder_is_refused(tmp_path):
    with pytest.raises(AnyLayerError, match=r"there are no images and no \.npy files in folder"):
        items_of([str(tmp_path)], ["data"])


def test_different_numbers_of_files_per_input_are_refused(folder):
    specs = [f"data={folder}", f"info={folder / 'a.jpg'}", f"info={folder / 'b.png'}"]
    with pytest.raises(AnyLayerError, match="input 'info' is given 2 times, but another input 4 times"):
        items_of(specs, ["data", "info"])


def test_input_for_network_without_inputs_is_refused():
    with pytest.raises(AnyLayerError, match="the network has no inputs"):
        items_of(["x.png"], [])


def test_image_is_resized_to_input(folder):
    loaded = loader_of(net_of(data=(1, 3, 2, 2))).load(Item({"data": folder / "b.png"}))
    assert_array_equal(loaded.arrays["data"][0, :, 0, 0], [30, 20, 10])
    assert loaded.arrays["data"].shape == (1, 3, 2, 2)
    assert loaded.image.shape == (2, 4, 3)
    assert loaded.place.width == 4


def test_values_are_reshaped_to_input(folder):
    loader = loader_of(net_of(data=(1, 3, 2, 2), info=(1, 3)))
    (item,) = items_of([f"data={folder / 'b.png'}", "info=[2, 4, 1]"], ["data", "info"])
    assert loader.load(item).arrays["info"].shape == (1, 3)


def test_npz_provides_inputs_by_name(folder):
    np.savez(folder / "f.npz", data=np.ones((1, 2)), info=np.zeros(3))
    loader = loader_of(net_of(data=None, info=None))
    (item,) = items_of([str(folder / "f.npz")], ["data", "info"])
    assert set(loader.load(item).arrays) == {"data", "info"}
    (item,) = items_of([f"info={folder / 'f.npz'}"], ["data", "info"])
    assert set(loader.load(item).arrays) == {"info"}
    (item,) = items_of([str(folder / "f.npz")], ["data", "inf"])
    with pytest.raises(AnyLayerError, match="the network has no input 'info'; did you mean 'inf'"):
        loader_of(net_of(data=None, inf=None)).load(item)


def test_array_of_text_is_refused(folder):
    np.save(folder / "t.npy", np.array(["a"]))
    with pytest.raises(AnyLayerError, match="the array must hold numbers, got dtype <U1"):
        loader_of(net_of(data=None)).load(Item({"data": folder / "t.npy"}))


def test_images_are_batched_and_arrays_are_not(folder):
    loader = loader_of(net_of(data=(2, 3, 2, 2)))
    groups = loader.batches(items_of([str(folder)], ["data"]), 2)
    assert [[i.name for i in g] for g in groups] == [["a", "b"], ["c"], ["x"]]


def test_mean_is_values_or_file(tmp_path):
    assert_array_equal(parse_mean("104,117,123"), [104, 117, 123])
    assert_array_equal(parse_mean("127.5"), [127.5])
    np.save(tmp_path / "m.npy", np.full((3, 2, 2), 5.0))
    assert parse_mean(str(tmp_path / "m.npy")).shape == (3, 2, 2)
    with pytest.raises(AnyLayerError, match="--mean has 1 or 3 values, got 2"):
        parse_mean("1,2")
    with pytest.raises(AnyLayerError, match="1;2;3: there is no such file; a mean is B,G,R or a file"):
        parse_mean("1;2;3")
    np.save(tmp_path / "m.npy", np.zeros((2, 2)))
    with pytest.raises(AnyLayerError, match=r"m\.npy: a mean image has shape \(3, H, W\), got \(2, 2\)"):
        parse_mean(str(tmp_path / "m.npy"))


def binaryproto(values):
    """Return a BlobProto with legacy dimensions and packed floats."""
    data = values.astype("<f4").tobytes()
    head = b"".join(bytes([tag, d]) for tag, d in zip((0x08, 0x10, 0x18, 0x20), (1, *values.shape)))
    return head + b"\x2a" + bytes([len(data) & 0x7F | 0x80, len(data) >> 7]) + data


@pytest.mark.parametrize("named", ["mean.binaryproto", "data/mean.binaryproto", "../../mean.binaryproto"])
def test_mean_file_is_found_in_folder_of_model(folder, named):
    mean = np.arange(36, dtype=np.float32).reshape(3, 3, 4)
    (folder / "mean.binaryproto").write_bytes(binaryproto(mean))
    own = {"data": Preprocess(mean_file=named, source="train_val.prototxt:7")}
    loader = loader_of(net_of(folder / "net.prototxt", own, data=(1, 3, 3, 4)))
    blob = loader.load(Item({"data": folder / "b.png"})).arrays["data"]
    assert_array_equal(blob[0, 1], 20 - mean[1])
    item = Item({"data": folder / "b.png"})
    assert list(loader.describe(item)) == [
        "input 'data': resize to 4x3, BGR, minus mean image [3, 3, 4] (train_val.prototxt:7)"
    ]


def test_missing_mean_file_is_named_with_remedy(folder):
    own = {"data": Preprocess(mean_file="/data/mean.binaryproto")}
    net = net_of(folder / "net.prototxt", own, data=(1, 3, 2, 4))
    with pytest.raises(
        AnyLayerError, match=r"mean_file '/data/mean\.binaryproto' is not in the model's folder. Give"
    ):
        loader_of(net).load(Item({"data": folder / "b.png"}))
    blob = loader_of(net, mean="1,2,3").load(Item({"data": folder / "b.png"})).arrays["data"]
    assert_array_equal(blob[0, :, 0, 0], [29, 18, 7])


def test_inputs_without_file_are_seeded_noise():
    net = net_of(data=(1, 3, 2, 2), info=(1, 3))
    first, again = feed(net, ["info=[1, 2, 3]"], {}), feed(net, ["info=[1, 2, 3]"], {})
    assert_array_equal(first["info"], [[1, 2, 3]])
    assert_array_equal(first["data"], again["data"])
    assert first["data"].std() > 0.1
    assert feed(net, [], {"data": (2, 3, 1, 1)})["data"].shape == (2, 3, 1, 1)
    with pytest.raises(AnyLayerError, match=r"'data' is not in the file\. Give shapes=\{'data': \(1, 3, 224"):
        feed(net_of(data=None), [], {})


MAP = {"m": np.full((1, 1, 2, 2), 0.5, np.float32)}
ONE = [Item({}, "a", "x/a.png")]
TWO = [*ONE, Item({}, "b", "x/b.png")]


def write(text, outputs=MAP, item=ONE[0], show="auto"):
    return OutOption(text).write(item, SimpleNamespace(image=None, place=None), outputs, ShowOptions(show))


def test_map_is_written_as_image(tmp_path):
    assert write(f"{tmp_path}/out.png") == [f"wrote {tmp_path}/out.png: 'm' 2x2, 0 is black, 1 white"]
    assert Image.open(tmp_path / "out.png").getpixel((0, 0)) == 128


def test_name_and_blob_in_path_are_replaced(tmp_path):
    outputs = {"up/../score": MAP["m"], "b": MAP["m"]}
    write(f"{tmp_path}/{{name}}-{{blob}}.png", outputs)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-b.png", "a-up_.._score.png"]


def test_folder_gets_one_file_per_output(tmp_path):
    write(f"{tmp_path}/new/", {**MAP, "p": np.zeros((1, 4), np.float32)})
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["a_m.png", "a_p.npy"]
    assert OutOption(f"{tmp_path}/without-suffix").is_folder


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"a": MAP["m"], "b": MAP["m"]},
            "is one file, but there are 2 outputs to draw: a, b. Select one with --blob",
        ),
        ({"p": np.zeros((1, 4))}, r"no output is a map or detections: p \[1, 4\]\. Write an \.npy"),
    ],
)
def test_output_that_is_not_one_image_is_refused(tmp_path, outputs, message):
    with pytest.raises(AnyLayerError, match=message):
        write(f"{tmp_path}/out.png", outputs)


def test_detections_without_image_are_refused(tmp_path):
    with pytest.raises(AnyLayerError, match="detections are drawn on the input image"):
        write(f"{tmp_path}/out.png", {"d": np.zeros((1, 1, 1, 7), np.float32)})


@pytest.mark.parametrize(
    ("text", "items", "message"),
    [
        (
            "out.xyz",
            ONE,
            r"-o out\.xyz: '\.xyz' is neither the suffix of an image nor one of \.npy, \.npz, \.json",
        ),
        ("out.png", TWO, r"-o out\.png is one file, but there are 2 inputs: write into a folder, or put {name}"),
        ("o/{name}.png", [*ONE, Item({}, "a", "y/a.png")], r"x/a\.png and y/a\.png would have the same name"),
    ],
)
def test_unwritable_target_is_refused_before_running(text, items, message):
    with pytest.raises(AnyLayerError, match=message):
        OutOption(text).check(items)


def test_one_file_of_arrays_holds_all_inputs(tmp_path):
    target = OutOption(f"{tmp_path}/out.npz")
    target.check(TWO)
    assert target.holds_all_inputs
    target.write_all([("a", MAP), ("b", MAP)])
    assert np.load(tmp_path / "out.npz")["m"].shape == (2, 1, 2, 2)


def test_pipe_is_refused(folder):
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(AnyLayerError) as caught:
        items_of([str(folder / "pipe.png")], ["data"])
    assert str(caught.value) == (
        f"{folder / 'pipe.png'}: this is a pipe or a device, but an input must be a regular file"
    )


def test_values_without_name_are_for_only_input():
    (item,) = items_of(["[1, 2]"], ["data"])
    assert item.sources["data"].tolist() == [1, 2]
    with pytest.raises(AnyLayerError, match=r"the network has several inputs \(a, b\): write NAME=\[1, 2\]"):
        items_of(["[1, 2]"], ["a", "b"])


def test_mean_from_another_file_is_refused(tmp_path):
    path = tmp_path / "net.mean"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    with pytest.raises(AnyLayerError, match=r"this is a picture \(PNG\), not a mean image \(\.binaryproto\)"):
        parse_mean(str(path))
