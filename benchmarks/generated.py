"""How exact generated code is: `python -m benchmarks.generated` prints the tables of docs/generate.md.

Each row generates a project for PyTorch, runs the project's own test, and states the largest difference from the
layers in NumPy, relative to the largest value of the output. `--only NAME` chooses rows, `--layers` leaves out the
networks. It needs torch and safetensors.

`--dv` prints the table of networks for DMP's DV700 instead, which needs a C++ compiler: the error of the code, the
error of 16-bit floats, and the number of layers of each kind.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.generators.pytorch.test_examples import RUNS, example

import anylayer
from anylayer.api import Net
from anylayer.convert.generation import Generation
from anylayer.errors import AnyLayerError
from benchmarks.networks import DETECTORS, NETWORKS, Source

_LINE = re.compile(r"off by (\S+) of (\S+)$")
_ROUNDING = re.compile(r"16-bit floats change an output by (\S+) of")


def error_of(done: Generation) -> float:
    """Return the largest relative difference that a project's test printed."""
    found = [match for line in done.report if (match := _LINE.search(line))]
    if len(found) != len(done.report) or not found:
        raise RuntimeError(f"the test of {done.folder} printed {done.report}, {done.untested}")
    return max(float(error) / float(scale) for error, scale in (match.groups() for match in found))


def layer_rows(only: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (layer, error) for each class of examples/layers."""
    for name in RUNS:
        if " " not in name and chosen(name, only):
            with TemporaryDirectory() as folder:
                tested = example(name, Path(folder))
                yield tested.node.type, f"{error_of(tested.generate(test=True)):.1e}"


def network_rows(only: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (network, error) for each network of the benchmark."""
    for source in NETWORKS:
        if chosen(source.name, only):
            with TemporaryDirectory() as folder:
                yield source.name, f"{network_error(source, Path(folder)):.1e}"


def network_error(source: Source, folder: Path) -> float:
    """Return the error of a network, with random weights where it has none."""
    net, shapes = network(source, folder)
    return error_of(net.generate("pytorch", folder / "project", shapes=shapes, batch=1))


def network(source: Source, folder: Path) -> tuple[Net, dict[str, tuple[int, ...]] | None]:
    """Return a network of the benchmark, with random weights where it has none, and the shapes of its inputs."""
    path = source.path
    if source.make is not None:
        path = folder / f"{source.name}.prototxt"
        path.write_text(source.make())
    net = anylayer.read(path, path.parent / source.weights if source.weights else None, dialect=source.dialect)
    shapes = dict.fromkeys(net.inputs, source.shape) if source.shape else None
    net.fill(0, shapes)
    if source.outputs:
        net.network.outputs = {name: net.network.blobs[name] for name in source.outputs}
    return net, shapes


DV_NETWORKS = (
    *(source for source in NETWORKS if source.name != "hed"),
    Source("hed, 128 x 128", "models/hed/deploy.prototxt", shape=(1, 3, 128, 128)),
    Source("lenet", "models/lenet/deploy.prototxt", "weights.caffemodel", shape=(1, 1, 28, 28)),
    Source("mtcnn_det2", "models/mtcnn_det2/deploy.prototxt", "weights.caffemodel", shape=(1, 3, 24, 24)),
    Source("ultraface_RFB-320, ONNX", "models/ultraface_RFB-320/version-RFB-320_without_postprocessing.onnx"),
    Source("deconv_upsample, Keras", "tf_keras/deconv_upsample.keras"),
    *DETECTORS,
)
_KINDS = ("CONV", "FC", "COPY_CONCAT", "CONCAT", "SOFTMAX", "CUSTOM")


def dv_rows(only: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the cells of each network's row: built or the reason why not, error, error of rounding, and counts of
    hardware layers, of layers of the runtime, and of callbacks."""
    for source in DV_NETWORKS:
        if chosen(source.name, only):
            with TemporaryDirectory() as folder:
                try:
                    net, shapes = network(source, Path(folder))
                    done = net.generate("dv", Path(folder) / "project", shapes=shapes)
                except AnyLayerError as error:
                    yield source.name, error.message, *["-"] * 5
                    continue
                (code,) = (f.read_text() for f in done.files if f.name.endswith("_gen.cpp"))
                conv, fc, *others, custom = (code.count(f"layer.type = LT_{kind};") for kind in _KINDS)
                rounding = _ROUNDING.search(" ".join(done.notes))
                within = rounding[1] if rounding else "< 0.002"
                counts = map(str, (conv + fc, sum(others), custom))
                yield source.name, "yes", f"{error_of(done):.1e}", within, *counts


def chosen(name: str, only: Sequence[str]) -> bool:
    """Return whether a row is asked for."""
    return not only or any(part in name for part in only)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generated", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a part of the name of a row; may be repeated")
    parser.add_argument("--layers", action="store_true", help="leave out the networks")
    parser.add_argument("--dv", action="store_true", help="print the table for DMP's DV700")
    options = parser.parse_args()
    if options.dv:
        print("| network | built | error | rounding | hardware layers | runtime layers | callbacks |")
        print("|---|---|---:|---:|---:|---:|---:|", flush=True)
        for row in dv_rows(options.only):
            print(f"| {' | '.join(row)} |", flush=True)
        return
    for kind, rows in (("layer", layer_rows), ("network", network_rows)):
        if kind == "layer" or not options.layers:
            print(f"| {kind} | PyTorch |\n|---|---:|", flush=True)
            for name, error in rows(options.only):
                print(f"| {name} | {error} |", flush=True)
            print()


if __name__ == "__main__":
    main()
