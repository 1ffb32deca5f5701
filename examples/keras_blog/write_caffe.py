"""Convert from Keras to Caffe in two ways, and compare both with Keras' results.

The first way is that of a well-known recipe: describe the network with NetSpec, and copy the weights by layer
names. The second way converts the network in one call.

    python write_caffe.py [FOLDER]      writes by_hand.prototxt, converted.prototxt and their weights
"""

import sys
from pathlib import Path

import numpy as np

import anylayer
import anylayer.caffe as caffe  # was: import caffe
from anylayer.caffe import layers as cl
from anylayer.caffe import params as cp

HERE = Path(__file__).parent
H = W = 32


def network() -> caffe.NetSpec:
    """Return the Keras model's layers as Caffe layers; layers with weights have the same names."""
    net = caffe.NetSpec()
    net.data = cl.Input(shape=[{"dim": [1, 3, H, W]}])

    net.conv1 = cl.Convolution(net.data, name="conv1", kernel_size=3, stride=1, num_output=8, pad=1)
    net.bn1 = cl.BatchNorm(net.conv1, name="bn1", use_global_stats=True)
    net.sc1 = cl.Scale(net.bn1, name="bn1_sc", bias_term=True)
    net.lr1 = cl.ReLU(net.sc1, negative_slope=0.1)
    net.mp1 = cl.Pooling(net.lr1, kernel_size=2, stride=2, pool=cp.Pooling.MAX)

    net.conv2 = cl.Convolution(net.mp1, name="conv2", kernel_size=3, stride=1, num_output=16, pad=1)
    net.bn2 = cl.BatchNorm(net.conv2, name="bn2", use_global_stats=True)
    net.sc2 = cl.Scale(net.bn2, name="bn2_sc", bias_term=True)
    net.lr2 = cl.ReLU(net.sc2, negative_slope=0.1)
    net.mp2 = cl.Pooling(net.lr2, kernel_size=2, stride=1, pad=1, pool=cp.Pooling.MAX)
    net.cr1 = cl.Crop(net.mp2, net.lr2, axis=2, offset=1)
    return net


def off(net: anylayer.Net) -> float:
    """Return the largest difference between a Caffe network and Keras, relative to the largest value."""
    golden = np.load(HERE / "golden.npz")
    (name,) = net.inputs
    (y,) = net.compile()({name: golden["x"].transpose(0, 3, 1, 2)}).values()
    want = golden["y"].transpose(0, 3, 1, 2)
    return float(np.abs(y - want).max() / np.abs(want).max())


def main(folder: Path) -> None:
    """Write both networks and compare them with Keras."""
    keras = anylayer.read(HERE / "model.keras")
    by_hand = anylayer.read(network().to_proto().save(folder / "net_spec.prototxt"))
    print(caffe.transfer_weights(keras, by_hand))
    by_hand.write(folder / "by_hand.prototxt")
    keras.write(folder / "converted.prototxt")
    for name in ("by_hand", "converted"):
        error = off(anylayer.read(folder / f"{name}.prototxt", folder / f"{name}.caffemodel"))
        print(f"{name}: largest difference from Keras {error:.1g}")
        if error > 1e-5:
            sys.exit(f"{name}: the tolerance is 1e-5")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
