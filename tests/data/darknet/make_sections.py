"""Make sections.npz: what Darknet's sections compute, for one small network per section and setting.

    python make_sections.py        (needs cv2 of OpenCV 4; the file in this folder was made with 4.14)

Most results are OpenCV's own (readNetFromDarknet). Where OpenCV does not read a section, ignores an option, or
differs from Darknet, the result is that of a loop over single elements, written from the formulas in AlexeyAB's
src/*.c. The file holds `index` (JSON) and `data`: for each case its name, the .cfg file, the .weights file, the
input and the outputs by name.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from recording import HEADER, F, noise, save, sigmoid, statistics

CASES: list[dict] = []
C, H, W = 8, 6, 8
"""The channels, height and width of the input."""
BEFORE = "[convolutional]\nfilters=8\nsize=1\nstride=1\npad=1\nactivation=linear\n"
"""A first section, whose 72 weights copy the input."""
COPY = np.concatenate([np.zeros(8), np.eye(8).ravel()]).astype(F)


def case(name, sections, weights=(), x=None, expected=None, before=BEFORE, size=(C, H, W)):
    """Add a case. `expected` computes the result of a section that OpenCV cannot check; None stands for OpenCV."""
    channels, height, width = size
    cfg = f"[net]\nwidth={width}\nheight={height}\nchannels={channels}\n{before}{sections}"
    x = noise(1, channels, height, width, seed=len(CASES) + 1) if x is None else x
    parts = [COPY] * (before == BEFORE) + [np.asarray(w, F).ravel() for w in weights]
    stored = HEADER + b"".join(p.astype("<f4").tobytes() for p in parts)
    outputs = opencv(cfg, stored, x) if expected is None else expected(x)
    if not isinstance(outputs, dict):
        outputs = {"": np.asarray(outputs, F)}
    CASES.append(
        {"name": name, "cfg": cfg, "weights": stored, "x": x, "outputs": outputs, "opencv": expected is None}
    )


def opencv(cfg, weights, x):
    net = cv2.dnn.readNetFromDarknet(np.frombuffer(cfg.encode(), np.uint8), np.frombuffer(weights, np.uint8))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setInput(x)
    names = net.getUnconnectedOutLayersNames()
    return dict(zip(names, net.forward(names)))


def conv(more="", filters=4, size=3, stride="stride=1\n", pad=1, activation="linear"):
    return f"[convolutional]\nfilters={filters}\nsize={size}\n{stride}pad={pad}\nactivation={activation}\n{more}"


# ---- convolutions and products

for size in (1, 2, 3, 5):
    for stride in (1, 2):
        for pad in (0, 1):
            w = [noise(4), noise(4, C, size, size, seed=2, scale=0.2)]
            case(f"convolutional {size} {stride} {pad}", conv(size=size, stride=f"stride={stride}\n", pad=pad), w)
case("convolutional padding", conv("padding=2\n", pad=0), [noise(4), noise(4, C, 3, 3, scale=0.2)])
case("convolutional groups", conv("groups=4\n"), [noise(4), noise(4, 2, 3, 3)])
case("convolutional depthwise", conv("groups=8\n", filters=8), [noise(8), noise(8, 1, 3, 3)])
case("convolutional normalized", conv("batch_normalize=1\n"), [*statistics(4), noise(4, C, 3, 3)])
case(
    "convolutional normalized leaky",
    conv("batch_normalize=1\ngroups=2\n", activation="leaky"),
    [*statistics(4), noise(4, 4, 3, 3)],
)


def convolved(w, b, strides=(1, 1), padding=1, dilation=1):
    def compute(x):
        k, pad = w.shape[2], padding * dilation
        rows = (H + 2 * pad - (k - 1) * dilation - 1) // strides[0] + 1
        columns = (W + 2 * pad - (k - 1) * dilation - 1) // strides[1] + 1
        y = np.zeros((1, w.shape[0], rows, columns))
        for f, i, j in np.ndindex(*y.shape[1:]):
            total = float(b[f])
            for c, a, e in np.ndindex(w.shape[1:]):
                r, s = i * strides[0] - pad + a * dilation, j * strides[1] - pad + e * dilation
                total += float(w[f, c, a, e]) * float(x[0, c, r, s]) if 0 <= r < H and 0 <= s < W else 0.0
            y[0, f, i, j] = total
        return y

    return compute


w, b = noise(2, C, 3, 3, seed=5), noise(2, seed=6)
case(
    "convolutional strides", conv("stride_x=1\nstride_y=2\n", 2, stride=""), [b, w], None, convolved(w, b, (2, 1))
)
case("convolutional dilated", conv("dilation=2\n", 2), [b, w], None, convolved(w, b, dilation=2))
case("connected", "[connected]\noutput=5\nactivation=linear\n", [noise(5), noise(5, C * H * W, scale=0.1)])
case("connected leaky", "[connected]\noutput=5\nactivation=leaky\n", [noise(5), noise(5, C * H * W, scale=0.1)])


def normalized(x, biases, scales, means, variances):
    return (x - means) / np.sqrt(variances + 1e-6) * scales + biases


def local(weights, biases, size, stride, pad):
    def compute(x):
        y = biases.astype(float)[None].copy()
        for f, i, j in np.ndindex(*biases.shape):
            for c, a, e in np.ndindex(C, size, size):
                r, s = i * stride - pad + a, j * stride - pad + e
                if 0 <= r < H and 0 <= s < W:
                    y[0, f, i, j] += weights[i * biases.shape[2] + j, f, (c * size + a) * size + e] * x[0, c, r, s]
        return y

    return compute


for size, stride, pad in ((3, 1, 1), (2, 2, 0), (3, 2, 1)):
    biases = noise(2, (H + 2 * pad - size) // stride + 1, (W + 2 * pad - size) // stride + 1, seed=7)
    weights = noise(biases[0].size, 2, C * size * size, seed=8)
    case(
        f"local {size} {stride} {pad}",
        f"[local]\nfilters=2\nsize={size}\nstride={stride}\npad={pad}\nactivation=linear\n",
        [biases, weights],
        None,
        local(weights, biases, size, stride, pad),
    )
matrix, stats = noise(5, C * H * W, scale=0.1), statistics(5)
case(
    "connected normalized",
    "[connected]\noutput=5\nbatch_normalize=1\nactivation=linear\n",
    [stats[0], matrix, *stats[1:]],
    None,
    lambda x: normalized(x.reshape(1, -1).astype(float) @ matrix.T.astype(float), *stats),
)
eight = statistics(8)
case(
    "batchnorm",
    "[batchnorm]\n",
    eight,
    None,
    lambda x: normalized(x.astype(float), *(v.reshape(-1, 1, 1).astype(float) for v in eight)),
)

# ---- pooling and sizes

for size in (1, 2, 3, 5):
    for stride in (1, 2):
        case(f"maxpool {size} {stride}", f"[maxpool]\nsize={size}\nstride={stride}\n")
for padding in (0, 1, 2):
    case(f"maxpool padding {padding}", f"[maxpool]\nsize=3\nstride=2\npadding={padding}\n")


def pooled(size, strides, padding, reduce):
    def compute(x):
        rows, columns = (H + padding - size) // strides[0] + 1, (W + padding - size) // strides[1] + 1
        y = np.zeros((1, C, rows, columns))
        for c, i, j in np.ndindex(*y.shape[1:]):
            top, left = i * strides[0] - padding // 2, j * strides[1] - padding // 2
            inside = [
                float(x[0, c, r, s])
                for r in range(top, top + size)
                for s in range(left, left + size)
                if 0 <= r < H and 0 <= s < W
            ]
            y[0, c, i, j] = reduce(inside)
        return y

    return compute


case("maxpool strides", "[maxpool]\nsize=2\nstride=1\nstride_x=2\n", (), None, pooled(2, (1, 2), 1, max))
for size, stride in ((2, 2), (3, 2), (3, 1)):
    case(
        f"local_avgpool {size} {stride}",
        f"[local_avgpool]\nsize={size}\nstride={stride}\n",
        (),
        None,
        pooled(size, (stride, stride), size - 1, lambda values: sum(values) / len(values)),
    )
case("avgpool", "[avgpool]\n")
case("crop", "[crop]\ncrop_width=5\ncrop_height=3\n")
case("crop noadjust", "[crop]\ncrop_width=5\ncrop_height=3\nnoadjust=1\n")
for stride in (1, 2, 3):
    case(f"upsample {stride}", f"[upsample]\nstride={stride}\n")
case("upsample scale", "[upsample]\nstride=2\nscale=3\n", (), None, lambda x: 3 * x.repeat(2, 2).repeat(2, 3))
case("reorg", "[reorg]\nstride=2\n")


def reorganized(reverse):
    def compute(x):
        y = np.zeros((1, C // 4, 2 * H, 2 * W) if reverse else (1, 4 * C, H // 2, W // 2))
        for c, i, j in np.ndindex(*(y if reverse else x).shape[1:]):
            dy, dx = i % 2, j % 2
            if reverse:
                y[0, c, i, j] = x[0, (2 * dy + dx) * (C // 4) + c, i // 2, j // 2]
            else:
                y[0, (2 * dy + dx) * C + c, i // 2, j // 2] = x[0, c, i, j]
        return y

    return compute


case("reorg3d", "[reorg3d]\nstride=2\n", (), None, reorganized(False))
case("reorg3d reverse", "[reorg3d]\nstride=2\nreverse=1\n", (), None, reorganized(True))

# ---- combination

more = conv(filters=3, size=1)
case(
    "route one",
    more + "[route]\nlayers=-2\n" + conv(filters=2, size=1),
    [noise(3), noise(3, C), noise(2), noise(2, C)],
)
case("route two", more + "[route]\nlayers=-1,0\n", [noise(3), noise(3, C)])
case("route three", more + "[route]\nlayers=-1, 0,-2\n", [noise(3), noise(3, C)])
case("route group 0", "[route]\nlayers=-1\ngroups=2\ngroup_id=0\n")
case("route group 3", "[route]\nlayers=0\ngroups=4\ngroup_id=3\n")
two = conv(filters=4, size=1) + "[route]\nlayers=-1,0\ngroups=2\ngroup_id=1\n"
w4 = noise(4, C, seed=9)
case(
    "route groups of two",
    two,
    [np.zeros(4), w4],
    None,
    lambda x: np.concatenate([np.einsum("fc,nchw->nfhw", w4, x)[:, 2:], x[:, 4:]], 1),
)
for filters in (8, 5, 11):
    case(
        f"shortcut {filters}",
        conv(filters=filters, size=1) + "[shortcut]\nfrom=-2\nactivation=linear\n",
        [noise(filters), noise(filters, C)],
    )
case("shortcut leaky", conv(filters=8) + "[shortcut]\nfrom=0\nactivation=leaky\n", [noise(8), noise(8, C, 3, 3)])


def weighted(kind, normalization, weights):
    """Add x, 2 * x and 3 * x, which the sections before compute, with weights."""

    def compute(x):
        y = np.zeros(x.shape)
        for c in range(C):
            w = [float(weights[i, c if kind == "per_channel" else 0]) for i in range(3)]
            if normalization == "relu":
                w = [max(v, 0.0) for v in w]
            else:
                w = [math.exp(v - max(w)) for v in w]
            total = sum(w) + 1e-4
            y[0, c] = (w[0] * 3 + w[1] * 2 + w[2] * 1) * x[0, c].astype(float) / total
        return y

    return compute


for kind in ("per_feature", "per_channel"):
    for normalization in ("relu", "softmax"):
        weights = noise(3, C if kind == "per_channel" else 1, seed=11)
        twice = [np.zeros(8), 2 * np.eye(8), np.zeros(8), 1.5 * np.eye(8)]
        case(
            f"shortcut {kind} {normalization}",
            2 * conv(filters=8, size=1)
            + f"[shortcut]\nfrom=-2,-3\nweights_type={kind}\nweights_normalization={normalization}\n"
            + "activation=linear\n",
            [*twice, weights],
            None,
            weighted(kind, normalization, weights),
        )
case(
    "shortcut two sources",
    2 * conv(filters=8, size=1) + "[shortcut]\nfrom=-2,-3\nactivation=linear\n",
    [np.zeros(8), 2 * np.eye(8), np.zeros(8), 1.5 * np.eye(8)],
    None,
    lambda x: 6 * x,
)
squeeze = "[avgpool]\n" + conv(filters=8, size=1, activation="logistic")
case("scale_channels", squeeze + "[scale_channels]\nfrom=0\nactivation=linear\n", [noise(8), noise(8, C)])
plane = conv(filters=1, size=1)
case(
    "scale_channels scale_wh",
    plane + "[scale_channels]\nfrom=0\nscale_wh=1\n",
    [np.zeros(1), np.ones((1, 8))],
    None,
    lambda x: x * x.sum(axis=1, keepdims=True),
)
case("sam", conv(filters=8, activation="logistic") + "[sam]\nfrom=-2\n", [noise(8), noise(8, C, 3, 3)])

# ---- functions of elements

for name in ("leaky", "relu", "mish", "swish", "logistic", "tanh"):
    case(
        f"convolutional with {name}", "", [noise(8), noise(8, C)], before=conv(filters=8, size=1, activation=name)
    )
case("dropout", "[dropout]\nprobability=.5\n")
case("cost", "[cost]\ntype=sse\n")
case("softmax", "[avgpool]\n[softmax]\ngroups=1\n")
case("softmax spatial", "[softmax]\nspatial=1\n")


def softmaxes(values, temperature=1.0):
    e = [math.exp(v / temperature) for v in values]
    return [v / sum(e) for v in e]


for groups, temperature in ((1, 1.0), (4, 1.0), (1, 2.5)):
    case(
        f"softmax of maps {groups} {temperature}",
        f"[softmax]\ngroups={groups}\ntemperature={temperature}\n",
        (),
        None,
        lambda x, g=groups, t=temperature: np.array(
            [softmaxes(part.tolist(), t) for part in x.reshape(g, -1)]
        ).reshape(x.shape),
    )


FUNCTIONS = {
    "loggy": lambda v: 2 * sigmoid(v) - 1,
    "relu6": lambda v: min(max(v, 0), 6),
    "elu": lambda v: v if v >= 0 else math.exp(v) - 1,
    "selu": lambda v: 1.0507 * v if v >= 0 else 1.0507 * 1.6732 * (math.exp(v) - 1),
    "gelu": lambda v: 0.5 * v * (1 + math.tanh(0.797885 * v + 0.035677 * v**3)),
    "relie": lambda v: v if v > 0 else 0.01 * v,
    "ramp": lambda v: v * (v > 0) + 0.1 * v,
    "revleaky": lambda v: v if v > 0 else 0.1 * v,
    "plse": lambda v: 0.01 * (v + 4) if v < -4 else 0.01 * (v - 4) + 1 if v > 4 else 0.125 * v + 0.5,
    "stair": lambda v: math.floor(v / 2) if math.floor(v) % 2 == 0 else v - math.floor(v) + math.floor(v / 2),
    "hardtan": lambda v: max(-1, min(1, v)),
    "lhtan": lambda v: 0.001 * v if v < 0 else 0.001 * (v - 1) + 1 if v > 1 else v,
    "hard_mish": lambda v: v if v > 0 else v * v / 2 + v if v > -2 else 0,
}
for name, function in FUNCTIONS.items():
    case(
        f"activation {name}",
        f"[activation]\nactivation={name}\n",
        (),
        noise(1, C, H, W, seed=21, scale=4),
        lambda x, f=function: np.vectorize(lambda v: float(f(float(v))))(x),
    )


def of_channels(function):
    def compute(x):
        y = np.zeros(x.shape)
        for i, j in np.ndindex(H, W):
            values = function([float(v) for v in x[0, :, i, j]])
            y[0, :, i, j] = [v / (sum(values) + 1e-4) for v in values]
        return y

    return compute


for name, function in {
    "normalize_channels": lambda values: [max(v, 0.0) for v in values],
    "normalize_channels_softmax": lambda values: [math.exp(v) for v in values],
    "normalize_channels_softmax_maxval": lambda values: [math.exp(v - max(values)) for v in values],
}.items():
    case(f"activation {name}", f"[activation]\nactivation={name}\n", (), None, of_channels(function))

# ---- boxes

ANCHORS = "anchors=1.5,2, 3,4.5, 5,2\n"
YOLO = f"[yolo]\nmask=1,2\n{ANCHORS}classes=3\nnum=3\njitter=.3\nignore_thresh=.7\ntruth_thresh=1\nrandom=1\n"
MAP = noise(1, 16, H, W, seed=31, scale=2)
AS_MAP = "[convolutional]\nfilters=16\nsize=1\nstride=1\nactivation=linear\n"
ID = [np.zeros(16), np.eye(16)]
for more in ("", "thresh=.05\n", "scale_x_y=1.2\n", "nms_threshold=.3\n", "nms_threshold=.1\nthresh=.01\n"):
    case(f"yolo {' '.join(more.split())}", YOLO + more, ID, MAP, None, AS_MAP, (16, H, W))
ACTIVATED = 1 / (1 + np.exp(-MAP))
for more in ("", "scale_x_y=2\n"):
    case(
        f"yolo new_coords {' '.join(more.split())}",
        YOLO + "new_coords=1\n" + more,
        ID,
        ACTIVATED,
        None,
        AS_MAP,
        (16, H, W),
    )
smaller = "[convolutional]\nfilters=16\nsize=3\nstride=2\npad=1\nactivation=linear\n"
case("yolo of a smaller map", YOLO, [noise(16), noise(16, 3, 3, 3)], None, None, smaller, (3, 32, 24))
GAUSSIAN = f"[Gaussian_yolo]\nmask=0,2\n{ANCHORS}classes=2\nnum=3\nuc_normalizer=.1\niou_loss=mse\n"
AS_GAUSSIAN = "[convolutional]\nfilters=22\nsize=1\nstride=1\nactivation=linear\n"


def gaussian(point=0.0, scale=1.0, thresh=0.2):
    """Decode cell by cell, box by box."""

    def compute(x):
        table = []
        for i, j, a in np.ndindex(H, W, 2):
            v = [float(value) for value in x[0, 11 * a : 11 * a + 11, i, j]]
            anchor = ((1.5, 2.0), (5.0, 2.0))[a]
            width, height = math.exp(v[4]) * anchor[0] / W, math.exp(v[6]) * anchor[1] / H
            left = (j + sigmoid(v[0]) * scale - 0.5 * (scale - 1)) / W + point * width
            top = (i + sigmoid(v[2]) * scale - 0.5 * (scale - 1)) / H + point * height
            uncertainty = (sigmoid(v[1]) + sigmoid(v[3]) + sigmoid(v[5]) + sigmoid(v[7])) / 4
            scores = [sigmoid(v[8]) * sigmoid(c) * (1 - uncertainty) for c in v[9:]]
            table.append([left, top, width, height, sigmoid(v[8]), *(s if s > thresh else 0 for s in scores)])
        return table

    return compute


WIDE = noise(1, 22, H, W, seed=33)
for more, expected in {
    "": gaussian(),
    "yolo_point=left_top\nthresh=.1\n": gaussian(0.5, thresh=0.1),
    "yolo_point=right_bottom\nscale_x_y=1.1\n": gaussian(-0.5, 1.1),
}.items():
    name = f"Gaussian_yolo {' '.join(more.split())}"
    case(name, GAUSSIAN + more, [np.zeros(22), np.eye(22)], WIDE, expected, AS_GAUSSIAN, (22, H, W))


def first_yolo(sqrt):
    """Decode the boxes of YOLOv1 in 3 x 3 cells with 2 classes and 2 boxes each."""

    def compute(x):
        values = [float(v) for v in x.ravel()]
        table = []
        for i in range(9):
            for n in range(2):
                left, top, width, height = values[36 + (2 * i + n) * 4 : 40 + (2 * i + n) * 4]
                scale = values[18 + 2 * i + n]
                scores = [scale * v for v in values[2 * i : 2 * i + 2]]
                power = 2 if sqrt else 1
                box = [(left + i % 3) / 3, (top + i // 3) / 3, width**power, height**power]
                table.append([*box, scale, *(s if s > 0.2 else 0 for s in scores)])
        return table

    return compute


DETECTION = "[detection]\nclasses=2\ncoords=4\nrescore=1\nside=3\nnum=2\nsoftmax=0\njitter=.2\ncoord_scale=5\n"
for sqrt in (0, 1):
    case(
        f"detection {sqrt}",
        f"{DETECTION}sqrt={sqrt}\n",
        [np.zeros(12), np.eye(12)],
        noise(1, 12, 3, 3, seed=35),
        first_yolo(sqrt),
        "[convolutional]\nfilters=12\nsize=1\nstride=1\nactivation=linear\n",
        (12, 3, 3),
    )
REGION = "[region]\nanchors=1,2, 3,4\nclasses=3\nnum=2\ncoords=4\nsoftmax=1\njitter=.2\nrescore=1\n"
for more in ("", "thresh=.2\n", "classfix=-1\n"):
    case(f"region {' '.join(more.split())}", REGION + more, ID, MAP, None, AS_MAP, (16, H, W))

save(CASES, "sections.npz")
print(len(CASES), "cases,", sum(case["opencv"] for case in CASES), "by OpenCV", cv2.__version__)
