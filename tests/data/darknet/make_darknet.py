"""Make darknet.npz: what pjreddie's Darknet computes, for one small network per section and setting.

    python make_darknet.py PATH/libdarknet.so

The library was made from Debian's source package darknet 0.0.0+git20180914.61c9d02e, by `make OPENCV=0`. Samples
of a recurrent section are separate calls of network_predict, between which it keeps its state; one call with as
many time_steps must agree. Boxes are those of get_network_boxes. The softmax of a tree in [region] is wrong in
Darknet's code for CPUs, so those boxes are computed by its functions softmax_cpu, hierarchy_predictions and
hierarchy_top_prediction, cell by cell. The file has the form of sections.npz.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from ctypes import POINTER, byref, c_float, c_int, c_void_p
from pathlib import Path

import numpy as np
from recording import HEADER, F, noise, save, statistics

LIB = ctypes.CDLL(str(Path(sys.argv[1]).resolve()))
FOLDER = tempfile.TemporaryDirectory()
os.chdir(FOLDER.name)
LIB.load_network.restype = LIB.read_tree.restype = c_void_p
LIB.network_predict.restype = POINTER(c_float)
CASES: list[dict] = []
OLD = np.array([0.001, 0.9, 0.0005], "<f4").tobytes() + np.array([7], "<i4").tobytes()
"""The header of old files, whose matrices are transposed: learning rate, momentum, decay, and images seen."""


class Detection(ctypes.Structure):
    """A box, as Darknet's include/darknet.h declares it."""

    _fields_ = (
        *((name, c_float) for name in "xywh"),
        ("classes", c_int),
        ("prob", POINTER(c_float)),
        ("mask", POINTER(c_float)),
        ("objectness", c_float),
        ("sort_class", c_int),
    )


LIB.get_network_boxes.restype = POINTER(Detection)


def load(cfg, weights):
    """Return Darknet's network. A tree is a file of the current folder."""
    Path("net.cfg").write_text(cfg)
    Path("net.weights").write_bytes(weights)
    return c_void_p(LIB.load_network(b"net.cfg", b"net.weights", 0))


def pointer(x):
    return np.ascontiguousarray(x, F).ctypes.data_as(POINTER(c_float))


def predict(net, x, count):
    x = np.ascontiguousarray(x, F)
    return np.ctypeslib.as_array(LIB.network_predict(net, pointer(x)), (count,)).copy()


def case(name, size, sections, weights, shape, steps=1, header=HEADER, x=None, boxes=None):
    """Add a case. size: channels, height and width of [net], or inputs alone. shape: that of an output.

    boxes: what makes rows of the network's boxes, for a section that decodes them.
    """
    names = ("channels", "height", "width") if len(size) == 3 else ("inputs",)
    net = "[net]\n" + "".join(f"{n}={v}\n" for n, v in zip(names, size))
    print(name, flush=True)
    x = noise(steps, *size, seed=len(CASES) + 1) if x is None else x
    stored = header + b"".join(np.asarray(w, "<f4").tobytes() for w in weights)
    darknet = load(net + sections, stored)
    if boxes is None:
        count = int(np.prod(shape))
        y = np.stack([predict(darknet, sample, count) for sample in x]).reshape(len(x), *shape)
        if steps > 1:
            at_once = load(f"{net}batch=1\ntime_steps={steps}\n{sections}", stored)
            np.testing.assert_allclose(
                predict(at_once, x, count * steps).reshape(y.shape), y, rtol=1e-5, atol=1e-6
            )
    else:
        predict(darknet, x[0], 1)
        y = boxes(darknet, x)
    assert np.isfinite(y).all() and np.abs(y).max() > 1e-3
    entry = {"name": name, "cfg": net + sections, "weights": stored, "x": x, "outputs": {"": y}, "opencv": False}
    CASES.append(entry)


def connected(outputs, inputs, seed, normalized=False, transposed=False):
    """Return the weights of a product in the file's order."""
    biases, *rest = statistics(outputs, seed)
    matrix = noise(outputs, inputs, seed=seed + 50, scale=inputs**-0.5)
    return [biases, matrix.T if transposed else matrix, *(rest if normalized else ())]


def convolution(filters, channels, size, seed, normalized=False):
    biases, *rest = statistics(filters, seed)
    kernel = noise(filters, channels, size, size, seed=seed + 50, scale=(channels * size * size) ** -0.5)
    return [biases, *(rest if normalized else ()), kernel]


def conv(more="", filters=4, size=3, activation="linear"):
    return f"[convolutional]\nfilters={filters}\nsize={size}\nstride=1\npad=1\nactivation={activation}\n{more}"


# ---- recurrent sections

for more in ("", "batch_normalize=1\n", "shortcut=1\nactivation=tanh\n"):
    normal = "batch" in more
    w = [a for i, n in enumerate((7, 5, 5)) for a in connected(5, n, 11 + i, normal)]
    activation = "" if "activation" in more else "activation=leaky\n"
    case(f"rnn {more.split()}", (7,), f"[rnn]\noutput=5\n{activation}{more}", w, (5,), 4)
case(
    "rnn of a map", (2, 3, 4), "[rnn]\noutput=3\n",
    [*connected(3, 24, 1), *connected(3, 3, 2), *connected(3, 3, 3)], (3,), 3,
)  # fmt: skip
for more in ("", "batch_normalize=1\n", "tanh=1\n"):
    normal = "batch" in more
    w = [a for i, n in enumerate((5, 5, 5, 7, 7, 7)) for a in connected(5, n, 21 + i, normal)]
    case(f"gru {more.split()}", (7,), f"[gru]\noutput=5\n{more}", w, (5,), 4)
for more in ("", "batch_normalize=1\n"):
    w = [a for i, n in enumerate((5, 5, 5, 5, 7, 7, 7, 7)) for a in connected(5, n, 31 + i, bool(more))]
    case(f"lstm {more.split()}", (7,), f"[lstm]\noutput=5\n{more}", w, (5,), 4)
for size, more in (((3, 4, 4), ""), ((3, 4, 5), "batch_normalize=1\n"), ((2, 3, 3), "shortcut=1\n")):
    w = [
        *convolution(6, size[0], 3, 39),
        *convolution(6, 6, 3, 40),
    ]  # Darknet's crnn uses the memory of the second
    for i, (filters, channels) in enumerate(((4, 6), (4, 4), (2, 4))):
        w += convolution(filters, channels, 3, 41 + i, "batch" in more)
    options = f"hidden_filters=4\noutput_filters=2\nactivation=leaky\n{more}"
    case(
        f"crnn {size} {more.split()}", size, f"{2 * conv(filters=6)}[crnn]\n{options}", w, (2, size[2], size[1]), 3
    )

# ---- transposed weights

turned = {"transposed": True}
case(
    "connected transposed",
    (7,),
    "[connected]\noutput=5\nactivation=leaky\n",
    connected(5, 7, 51, **turned),
    (5,),
    1,
    OLD,
)
case(
    "connected transposed normalized", (7,), "[connected]\noutput=5\nbatch_normalize=1\nactivation=linear\n",
    connected(5, 7, 52, True, True), (5,), 1, OLD,
)  # fmt: skip
w = [a for i, n in enumerate((7, 5, 5)) for a in connected(5, n, 53 + i, **turned)]
case("rnn transposed", (7,), "[rnn]\noutput=5\nactivation=leaky\n", w, (5,), 3, OLD)
w = [a for i, n in enumerate((5, 5, 5, 7, 7, 7)) for a in connected(5, n, 61 + i, **turned)]
case("gru transposed", (7,), "[gru]\noutput=5\n", w, (5,), 3, OLD)
w = [a for i, n in enumerate((5, 5, 5, 5, 7, 7, 7, 7)) for a in connected(5, n, 71 + i, **turned)]
case("lstm transposed", (7,), "[lstm]\noutput=5\n", w, (5,), 3, OLD)

# ---- other sections with weights

MAP = (8, 6, 8)


case("convolutional", MAP, conv(), convolution(4, 8, 3, 81), (4, 6, 8))
case(
    "convolutional normalized",
    MAP,
    conv("batch_normalize=1\n", activation="leaky"),
    convolution(4, 8, 3, 82, True),
    (4, 6, 8),
)
case("convolutional groups", MAP, conv("groups=2\n"), convolution(4, 4, 3, 83), (4, 6, 8))
biases, kernel = convolution(4, 8, 3, 84)
case("convolutional flipped", MAP, conv("flipped=1\n"), [biases, kernel.reshape(4, -1).T], (4, 6, 8))
case("connected", MAP, "[connected]\noutput=5\nactivation=linear\n", connected(5, 384, 85), (5,))
case(
    "connected normalized",
    MAP,
    "[connected]\noutput=5\nbatch_normalize=1\nactivation=linear\n",
    connected(5, 384, 86, True),
    (5,),
)
case(
    "local", MAP, conv(filters=8) + "[local]\nfilters=2\nsize=3\nstride=2\npad=1\nactivation=leaky\n",
    [*convolution(8, 8, 3, 87), noise(2, 3, 4), noise(12, 2, 72, seed=3, scale=0.1)], (2, 3, 4),
)  # fmt: skip

# ---- sections without weights

case("softmax", MAP, "[softmax]\n", (), MAP)
case("softmax groups", MAP, "[softmax]\ngroups=4\ntemperature=2.5\n", (), MAP)
case("avgpool", MAP, "[avgpool]\n", (), (8, 1, 1))
for size, stride in ((2, 2), (3, 1), (3, 2)):
    shape = (8, (6 - 1) // stride + 1, (8 - 1) // stride + 1)
    case(f"maxpool {size} {stride}", MAP, f"[maxpool]\nsize={size}\nstride={stride}\n", (), shape)
case("upsample scale", MAP, "[upsample]\nstride=2\nscale=3\n", (), (8, 12, 16))
case("reorg extra", MAP, "[reorg]\nextra=2\nstride=1\n", (), (386,))
case("reorg", MAP, "[reorg]\nstride=2\n", (), (32, 3, 4))
case("dropout", MAP, conv(filters=8) + "[dropout]\nprobability=.5\n", convolution(8, 8, 3, 88), MAP)
case("route", MAP, conv(filters=3) + "[route]\nlayers=-1,0\n", convolution(3, 8, 3, 91), (6, 6, 8))
case("shortcut", MAP, conv(filters=8) + conv(filters=8) + "[shortcut]\nfrom=-2\nactivation=leaky\n",
     [*convolution(8, 8, 3, 92), *convolution(8, 8, 3, 93)], MAP)  # fmt: skip
smaller = conv(filters=4).replace("stride=1", "stride=2")
weights = [*convolution(6, 8, 3, 94), *convolution(4, 6, 3, 95)]
sections = conv(filters=6) + smaller + "[shortcut]\nfrom=-2\nactivation=leaky\n"
case("shortcut of a larger map", MAP, sections, weights, (4, 3, 4))
NAMES = "logistic loggy relu elu selu relie ramp linear tanh plse leaky stair hardtan lhtan"
for name in NAMES.split():
    x = noise(1, *MAP, seed=21, scale=4)
    case(f"activation {name}", MAP, f"[activation]\nactivation={name}\n", (), MAP, x=x)

# ---- boxes


def rows(count, order, classes, size=None):
    """Return a function that gives the network's boxes as rows. order: their order, from that of Darknet.

    size: that of the image in which boxes are stated; by default that of the network, whose parts they are.
    """

    def compute(net, x):
        number = c_int()
        width, height = size or x.shape[:1:-1]
        boxes = LIB.get_network_boxes(net, width, height, c_float(-1), c_float(0.5), None, 1, byref(number))
        assert number.value == count
        table = []
        for box in boxes[:count]:
            scores = np.array(box.prob[:classes])
            table.append([box.x, box.y, box.w, box.h, box.objectness, *np.where(scores > 0.05, scores, 0)])
        return np.array(table)[order]

    return compute


def same_map(filters):
    return f"[convolutional]\nfilters={filters}\nsize=1\nstride=1\nactivation=linear\n"


x = noise(1, 16, 6, 8, seed=31, scale=2)
same = [np.zeros(16), np.eye(16)]
yolo = "[yolo]\nmask=1,2\nanchors=1.5,2, 3,4.5, 5,2\nclasses=3\nnum=3\nthresh=.05\n"
case("yolo", (16, 6, 8), same_map(16) + yolo, same, None, x=x, boxes=rows(96, np.arange(96), 3))
by_cell = np.arange(96).reshape(2, 48).T.ravel()
region = "[region]\nanchors=1,2, 3,4\nclasses=3\nnum=2\ncoords=4\nsoftmax=1\nthresh=.05\nnms_threshold=0\n"
case("region", (16, 6, 8), same_map(16) + region, same, None, x=x, boxes=rows(96, by_cell, 3))
for sqrt in (0, 1):
    detection = f"[detection]\nclasses=2\ncoords=4\nside=3\nnum=2\nsoftmax=0\nsqrt={sqrt}\nthresh=.05\n"
    case(
        f"detection {sqrt}", (12, 3, 3), same_map(12) + detection, [np.zeros(12), np.eye(12)], None,
        x=np.abs(noise(1, 12, 3, 3, seed=35)), boxes=rows(18, np.arange(18), 2, (1, 1)),
    )  # fmt: skip

# ---- trees of classes

TREE = "a -1\nb -1\nc -1\nd 0\ne 0\nf 2\ng 2\nh 2\ni 3\nj 3\nk 6\n"
GROUPS = [(0, 3), (3, 2), (5, 3), (8, 2), (10, 1)]


def of_tree(net, x):
    """Decode the boxes of a map of 2 anchors and 11 classes."""
    tree, (_, _, h, w) = c_void_p(LIB.read_tree(b"small.tree")), x.shape
    table = []
    for i, j, a in np.ndindex(h, w, 2):
        v = np.ascontiguousarray(x[0, 16 * a : 16 * a + 16, i, j], F)
        left, top, objectness = 1 / (1 + np.exp(-v[[0, 1, 4]].astype(float)))
        width, height = np.exp(v[2:4].astype(float)) * ((1, 2), (3, 4))[a] / (w, h)
        p = np.zeros(11, F)
        for start, size in GROUPS:
            LIB.softmax_cpu(pointer(v[5 + start :]), size, 1, 0, 1, 0, 1, c_float(1), pointer_into(p, start))
        LIB.hierarchy_predictions(pointer_into(p, 0), 11, tree, 0, 1)
        top_class = LIB.hierarchy_top_prediction(pointer_into(p, 0), tree, c_float(0.5), 1)
        scores = np.where(np.arange(11) == top_class, objectness if objectness > 0.3 else 0, 0)
        table.append([(left + j) / w, (top + i) / h, width, height, objectness, *scores])
    assert len({int(np.argmax(row[5:])) for row in table}) > 6
    return np.array(table)


def pointer_into(array, start):
    return ctypes.cast(array.ctypes.data + 4 * start, POINTER(c_float))


Path("small.tree").write_text(TREE)
case("softmax tree", (11,), "[softmax]\ntree=small.tree\n", (), (11,))
case("softmax tree temperature", (11,), "[softmax]\ntree=small.tree\ntemperature=3\n", (), (11,))
region = "[region]\nanchors=1,2, 3,4\nclasses=11\nnum=2\ncoords=4\nsoftmax=1\nthresh=.3\ntree=small.tree\n"
x = noise(1, 32, 6, 8, seed=37, scale=3)
case("region tree", (32, 6, 8), same_map(32) + region, [np.zeros(32), np.eye(32)], None, x=x, boxes=of_tree)
w = [a for i, n in enumerate((7, 5, 5)) for a in connected(5, n, 11 + i)]
case("rnn ignores hidden", (7,), "[rnn]\noutput=5\nhidden=9\nactivation=leaky\n", w, (5,), 2)
save([{**entry, "dialect": "pjreddie", "tree": TREE} for entry in CASES], "darknet.npz")
print(len(CASES), "cases")
