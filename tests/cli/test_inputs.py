"""What -i and -o mean."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from anylayer import AnyLayerError
from anylayer.cli.inputs import Item, Loader, Wanted, feed, items_of, read_mean
from anylayer.cli.results import Options
from anylayer.cli.targets import Target
from anylayer.network import Network, Preprocess, TensorType


@pytest.fixture
def folder(tmp_path):
    for name, colour in (("b.png", (10, 20, 30)), ("a.jpg", (0, 0, 0)), ("c.bmp", (1, 2, 3))):
        Image.new("RGB", (4, 2), colour).save(tmp_path / name)
    np.save(tmp_path / "x.npy", np.ones((1, 3, 2, 4), np.float32))
    (tmp_path / "notes.txt").write_text("no picture")
    return tmp_path


def net_of(source="net.prototxt", preprocess=None, **inputs):
    """A net without nodes: all that reading inputs needs."""
    types = {n: TensorType(s) if s else None for n, s in inputs.items()}
    return SimpleNamespace(
        network=Network("n", "caffe", types, [], {}, source=str(source), preprocess=preprocess or {})
    )


def loader_of(net, **wishes):
    return Loader(net, net.network.inputs, Wanted(**wishes))


def test_a_picture_lies_as_the_network_takes_it(folder):
    net = net_of(data=(1, 2, 4, 3), other=(1, 3, 2, 4))
    net.network.layouts["data"] = "NHWC"
    loader = loader_of(net, mean="1,2,3", scale=(1.0, 10.0, 100.0))
    loaded = loader.load(Item({"data": folder / "b.png", "other": folder / "b.png"}))
    assert loaded.arrays["data"].shape == (1, 2, 4, 3) and loaded.arrays["data"].flags.c_contiguous
    assert_array_equal(loaded.arrays["data"][0, 0, 0], [29, 180, 700])
    assert_array_equal(loaded.arrays["other"], loaded.arrays["data"].transpose(0, 3, 1, 2))


def test_a_shape_that_takes_pictures_with_channels_last_only(folder):
    net = net_of(data=(1, 2, 4, 3))
    loader = loader_of(net)
    item = Item({"data": folder / "b.png"})
    assert loader.load(item).arrays["data"].shape == (1, 2, 4, 3)
    (line,) = loader.describe(item)
    assert line.endswith(", channels last, as its shape says")
    net.network.layouts["data"] = "NCHW"
    with pytest.raises(AnyLayerError, match="has 2"):
        loader_of(net).load(item)


def test_an_input_with_channels_last_that_takes_no_pictures(folder):
    net = net_of(data=(1, 3, 8, 8))
    net.network.layouts["data"] = "NHWC"
    text = r"input 'data': a picture has 1 or 3 channels, this input float32\[1, 3, 8, 8\] has 8"
    with pytest.raises(AnyLayerError, match=text):
        loader_of(net).load(Item({"data": folder / "b.png"}))


def test_a_file_is_for_the_first_input(folder):
    (item,) = items_of([str(folder / "b.png")], ["data", "info"])
    assert item.sources == {"data": folder / "b.png"}
    assert (item.name, item.source) == ("b", str(folder / "b.png"))


def test_a_folder_stands_for_its_pictures_and_arrays_in_order(folder):
    items = items_of([str(folder)], ["data"])
    assert [i.name for i in items] == ["a", "b", "c", "x"]


def test_an_input_with_one_file_has_it_in_all_items(folder):
    specs = [f"data={folder / 'a.jpg'}", f"data={folder / 'b.png'}", "info=[2, 4, 1]"]
    items = items_of(specs, ["data", "info"])
    assert [i.name for i in items] == ["a", "b"]
    for item in items:
        assert_array_equal(item.sources["info"], [2, 4, 1])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dta=x.png", r"the network has no input 'dta'; did you mean 'data'\?; its inputs: data, info"),
        ("gone.png", "gone.png: there is no such file"),
        ("w.caffemodel", "w.caffemodel holds weights; an input is a picture, .npy or .npz"),
        ("info=[1, oops]", r"values are given as \[1, 2, 3\], got \[1, oops\]"),
    ],
)
def test_what_is_no_input_is_refused(spec, message):
    with pytest.raises(AnyLayerError, match=message):
        items_of([spec], ["data", "info"])


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(AnyLayerError, match=r"there are no pictures and no \.npy files in folder"):
        items_of([str(tmp_path)], ["data"])


def test_inputs_given_a_different_number_of_times_are_refused(folder):
    specs = [f"data={folder}", f"info={folder / 'a.jpg'}", f"info={folder / 'b.png'}"]
    with pytest.raises(AnyLayerError, match="input 'info' is given 2 times, another one 4 times"):
        items_of(specs, ["data", "info"])


def test_a_network_without_inputs_takes_none():
    with pytest.raises(AnyLayerError, match="the network has no inputs"):
        items_of(["x.png"], [])


def test_a_picture_is_loaded_as_the_input_wants_it(folder):
    loaded = loader_of(net_of(data=(1, 3, 2, 2))).load(Item({"data": folder / "b.png"}))
    assert_array_equal(loaded.arrays["data"][0, :, 0, 0], [30, 20, 10])
    assert loaded.arrays["data"].shape == (1, 3, 2, 2)
    assert loaded.picture.shape == (2, 4, 3)
    assert loaded.place.width == 4


def test_values_take_the_inputs_shape(folder):
    loader = loader_of(net_of(data=(1, 3, 2, 2), info=(1, 3)))
    (item,) = items_of([f"data={folder / 'b.png'}", "info=[2, 4, 1]"], ["data", "info"])
    assert loader.load(item).arrays["info"].shape == (1, 3)


def test_an_npz_gives_the_inputs_it_names(folder):
    np.savez(folder / "f.npz", data=np.ones((1, 2)), info=np.zeros(3))
    loader = loader_of(net_of(data=None, info=None))
    (item,) = items_of([str(folder / "f.npz")], ["data", "info"])
    assert set(loader.load(item).arrays) == {"data", "info"}
    (item,) = items_of([f"info={folder / 'f.npz'}"], ["data", "info"])
    assert set(loader.load(item).arrays) == {"info"}
    (item,) = items_of([str(folder / "f.npz")], ["data", "inf"])
    with pytest.raises(AnyLayerError, match="the network has no input 'info'; did you mean 'inf'"):
        loader_of(net_of(data=None, inf=None)).load(item)


def test_an_array_of_text_is_refused(folder):
    np.save(folder / "t.npy", np.array(["a"]))
    with pytest.raises(AnyLayerError, match="an array of numbers is needed, got <U1"):
        loader_of(net_of(data=None)).load(Item({"data": folder / "t.npy"}))


def test_pictures_run_in_batches_and_arrays_alone(folder):
    loader = loader_of(net_of(data=(2, 3, 2, 2)))
    groups = loader.batches(items_of([str(folder)], ["data"]), 2)
    assert [[i.name for i in g] for g in groups] == [["a", "b"], ["c"], ["x"]]


def test_the_mean_is_values_or_a_file(tmp_path):
    assert_array_equal(read_mean("104,117,123"), [104, 117, 123])
    assert_array_equal(read_mean("127.5"), [127.5])
    np.save(tmp_path / "m.npy", np.full((3, 2, 2), 5.0))
    assert read_mean(str(tmp_path / "m.npy")).shape == (3, 2, 2)
    with pytest.raises(AnyLayerError, match="--mean has 1 or 3 values, got 2"):
        read_mean("1,2")
    with pytest.raises(AnyLayerError, match="1;2;3: there is no such file; a mean is B,G,R or a file"):
        read_mean("1;2;3")
    np.save(tmp_path / "m.npy", np.zeros((2, 2)))
    with pytest.raises(AnyLayerError, match=r"m\.npy: a mean picture has shape \(3, H, W\), got \(2, 2\)"):
        read_mean(str(tmp_path / "m.npy"))


def binaryproto(values):
    """A BlobProto with legacy dimensions and packed floats."""
    data = values.astype("<f4").tobytes()
    head = b"".join(bytes([tag, d]) for tag, d in zip((0x08, 0x10, 0x18, 0x20), (1, *values.shape)))
    return head + b"\x2a" + bytes([len(data) & 0x7F | 0x80, len(data) >> 7]) + data


@pytest.mark.parametrize("named", ["mean.binaryproto", "data/mean.binaryproto", "../../mean.binaryproto"])
def test_the_mean_file_is_found_beside_the_model(folder, named):
    mean = np.arange(36, dtype=np.float32).reshape(3, 3, 4)
    (folder / "mean.binaryproto").write_bytes(binaryproto(mean))
    own = {"data": Preprocess(mean_file=named, source="train_val.prototxt:7")}
    loader = loader_of(net_of(folder / "net.prototxt", own, data=(1, 3, 3, 4)))
    blob = loader.load(Item({"data": folder / "b.png"})).arrays["data"]
    assert_array_equal(blob[0, 1], 20 - mean[1])
    item = Item({"data": folder / "b.png"})
    assert list(loader.describe(item)) == [
        "input 'data': resize to 4x3, BGR, minus mean picture [3, 3, 4] (train_val.prototxt:7)"
    ]


def test_a_missing_mean_file_is_named_with_the_remedy_that_works(folder):
    own = {"data": Preprocess(mean_file="/data/mean.binaryproto")}
    net = net_of(folder / "net.prototxt", own, data=(1, 3, 2, 4))
    with pytest.raises(AnyLayerError, match=r"mean_file '/data/mean\.binaryproto' is not beside the model. Give"):
        loader_of(net).load(Item({"data": folder / "b.png"}))
    blob = loader_of(net, mean="1,2,3").load(Item({"data": folder / "b.png"})).arrays["data"]
    assert_array_equal(blob[0, :, 0, 0], [29, 18, 7])


def test_what_is_not_given_is_seeded_noise():
    net = net_of(data=(1, 3, 2, 2), info=(1, 3))
    first, again = feed(net, ["info=[1, 2, 3]"], {}), feed(net, ["info=[1, 2, 3]"], {})
    assert_array_equal(first["info"], [[1, 2, 3]])
    assert_array_equal(first["data"], again["data"])
    assert first["data"].std() > 0.1
    assert feed(net, [], {"data": (2, 3, 1, 1)})["data"].shape == (2, 3, 1, 1)
    with pytest.raises(
        AnyLayerError, match="the shape of input 'data' is not in the file: give --shape data=N,C,H,W"
    ):
        feed(net_of(data=None), [], {})


MAP = {"m": np.full((1, 1, 2, 2), 0.5, np.float32)}
ONE = [Item({}, "a", "x/a.png")]
TWO = [*ONE, Item({}, "b", "x/b.png")]


def write(text, outputs=MAP, item=ONE[0], show="auto"):
    return Target(text).write(item, SimpleNamespace(picture=None, place=None), outputs, Options(show))


def test_a_map_is_written_as_a_picture(tmp_path):
    assert write(f"{tmp_path}/out.png") == [f"wrote {tmp_path}/out.png: 'm' 2x2, 0 is black, 1 white"]
    assert Image.open(tmp_path / "out.png").getpixel((0, 0)) == 128


def test_name_and_blob_stand_for_input_and_output(tmp_path):
    outputs = {"up/../score": MAP["m"], "b": MAP["m"]}
    write(f"{tmp_path}/{{name}}-{{blob}}.png", outputs)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-b.png", "a-up_.._score.png"]


def test_a_folder_takes_a_file_for_each_output(tmp_path):
    write(f"{tmp_path}/new/", {**MAP, "p": np.zeros((1, 4), np.float32)})
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["a_m.png", "a_p.npy"]
    assert Target(f"{tmp_path}/without-suffix").is_folder


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"a": MAP["m"], "b": MAP["m"]},
            "is one picture, there are 2 outputs to draw: a, b. Choose one with --blob",
        ),
        ({"p": np.zeros((1, 4))}, r"no output is a map or detections: p \[1, 4\]"),
    ],
)
def test_what_is_not_one_picture_is_refused(tmp_path, outputs, message):
    with pytest.raises(AnyLayerError, match=message):
        write(f"{tmp_path}/out.png", outputs)


def test_detections_are_not_drawn_on_nothing(tmp_path):
    with pytest.raises(AnyLayerError, match="detections are drawn on the picture that was run"):
        write(f"{tmp_path}/out.png", {"d": np.zeros((1, 1, 1, 7), np.float32)})


@pytest.mark.parametrize(
    ("text", "items", "message"),
    [
        ("out.xyz", ONE, r"-o out\.xyz: '\.xyz' is neither a picture's suffix nor one of \.npy, \.npz, \.json"),
        ("out.png", TWO, r"-o out\.png is one picture, there are 2 inputs: write into a folder, or put {name}"),
        ("o/{name}.png", [*ONE, Item({}, "a", "y/a.png")], r"x/a\.png and y/a\.png would have the same name"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(text, items, message):
    with pytest.raises(AnyLayerError, match=message):
        Target(text).check(items)


def test_one_file_of_arrays_holds_all_inputs(tmp_path):
    target = Target(f"{tmp_path}/out.npz")
    target.check(TWO)
    assert target.joins
    target.write_all([("a", MAP), ("b", MAP)])
    assert np.load(tmp_path / "out.npz")["m"].shape == (2, 1, 2, 2)


def test_a_pipe_is_refused_where_reading_it_would_wait(folder):
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(AnyLayerError) as caught:
        items_of([str(folder / "pipe.png")], ["data"])
    assert str(caught.value) == (
        f"{folder / 'pipe.png'}: this is not a file that can be read twice, such as a pipe or a device"
    )


def test_values_without_a_name_are_for_the_only_input():
    (item,) = items_of(["[1, 2]"], ["data"])
    assert item.sources["data"].tolist() == [1, 2]
    with pytest.raises(AnyLayerError, match=r"values need the input's name here, one of a, b: NAME=\[1, 2\]"):
        items_of(["[1, 2]"], ["a", "b"])
