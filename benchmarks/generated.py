"""How exact generated code is: `python -m benchmarks.generated` prints the tables of docs/generate-measured.md.

Each figure is from a generated project, whose own test runs in the target's runtime: the largest difference from
the layers in NumPy, relative to the largest value of the output. `--only NAME` chooses rows, `--layers` leaves out
the networks, `--docs` writes the table of layers. A target whose tools are not installed has no figures.
opencv-python runs in the environment of the peers, which has OpenCV 4, where there is one (`python -m benchmarks
--make-peers`).

`--dv` prints the table of networks for DMP's DV700 instead, which needs a C++ compiler: the error of the code, the
error of 16-bit floats, and the number of layers of each kind.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tests.generators.opencv.test_project import examples
from tests.generators.pytorch.test_examples import RUNS, example

import anylayer
from anylayer.api import Net
from anylayer.convert.generation import Generation
from anylayer.errors import AnyLayerError
from benchmarks.__main__ import peers
from benchmarks.networks import DETECTORS, NETWORKS, Source

_LINE = re.compile(r"^(.+): largest difference (\S+), largest value (\S+)$")
_SECONDS = 600
_ROUNDING = re.compile(r"16-bit floats change an output by (\S+) of")
COLUMNS = ("opencv", "opencv-python", "onnxruntime", "openvino", "pytorch", "dv", "cpp")
"""The targets of `generate`, and the engine cpp. openvino has a second column for its kernels in OpenCL."""
PAGE = Path(__file__).parent.parent / "docs" / "generate-measured.md"
START, END = "<!-- measured: python -m benchmarks.generated --docs -->\n", "<!-- end of measured part -->\n"


def error_of(done: Generation) -> float:
    """Return the largest relative difference that a project's test printed."""
    found = [match for line in done.report if (match := _LINE.search(line))]
    if len(found) != len(done.report) or not found:
        raise RuntimeError(f"the test of {done.folder} printed {done.report}, {done.untested}")
    return max(float(error) / float(scale) for _, error, scale in (match.groups() for match in found))


def layer_errors(target: str, names: Sequence[str], folder: Path) -> dict[str, dict[str, float]]:
    """Return the errors that a target's runtime has, by the column of the table and the layer type.

    The layers run side by side in one project, except for dv, which takes one sample only and refuses some layers:
    each layer has a project there.
    """
    if target == "dv":
        pairs = [pair for name in names for pair in _alone(name, target, folder / name.replace(" ", "_"))]
        return {target: _largest(pairs)}
    net, given = examples(folder, names)
    types = {output: node.type for node in net.network.nodes for output in node.outputs}
    if target == "cpp":
        want, got = net.compile("numpy")(given), net.compile("cpp")(given)
        pairs = [(types[n], float(np.abs(got[n] - y).max() / np.abs(y).max())) for n, y in want.items()]
        return {target: _largest(pairs)}
    python = peers(os.environ.get("ANYLAYER_PEERS")) if target == "opencv-python" else None
    done = net.generate(target, folder / "project", inputs=given, test=python is None)
    found: dict[str, list[tuple[str, float]]] = {target: []}
    for line in done.report if python is None else _printed(done.folder, python):
        if line.startswith("the OpenCL kernels"):
            target += ", OpenCL"
            found[target] = []
        if (match := _LINE.search(line)) is not None:
            name, error, scale = match.groups()
            found[target].append((types.get(name, name.strip("'")), float(error) / float(scale)))
    return {column: _largest(pairs) for column, pairs in found.items()}


def _printed(folder: Path, python: str) -> list[str]:
    """Return the lines that the test of a project for opencv-python prints in another environment."""
    words = [python, "-B", "test_numpy_layers.py"]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=_SECONDS)
    return done.stdout.splitlines()


def _alone(name: str, target: str, folder: Path) -> list[tuple[str, float]]:
    """Return (type, error) of a layer in a project of its own, for one sample. Return [] if it is refused."""
    folder.mkdir()
    tested = example(name, folder)
    try:
        done = replace(tested, inputs=[x[:1] for x in tested.inputs]).generate(test=True, target=target)
    except AnyLayerError:
        return []
    return [(tested.node.type, error_of(done))]


def _largest(pairs: Sequence[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, error in pairs:
        found[name] = max(error, found.get(name, 0.0))
    return found


def layer_table(only: Sequence[str], columns: Sequence[str] = COLUMNS) -> list[str]:
    """Return the lines of the table of layers and targets."""
    names = [name for name in RUNS if chosen(name, only)]
    found: dict[str, dict[str, float]] = {}
    for target in columns:
        with TemporaryDirectory() as folder:
            found.update(layer_errors(target, names, Path(folder)))
    return table_of(names, found)


def table_of(names: Sequence[str], found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the lines of a table of errors. "-" stands for a layer that the target refuses, or that the installed
    version of its runtime cannot run."""
    rows = [f"| layer | {' | '.join(found)} |", "|---|" + "---:|" * len(found)]
    for name in dict.fromkeys(RUNS[name][0] for name in names):
        words = (f"{errors[name]:.1e}" if name in errors else "-" for errors in found.values())
        rows.append(f"| {name} | {' | '.join(words)} |")
    return rows


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
_DIVIDED = {"shufflenet_v1_g3": 64}
"""The number by which the inputs of a network are divided: its weights are random, and it computes values of up to
6e5 for normally distributed inputs, more than 16-bit floats hold."""
_KINDS = ("CONV", "FC", "COPY_CONCAT", "CONCAT", "SOFTMAX", "CUSTOM")


def dv_rows(only: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the cells of each network's row: built or the reason why not, error, error of rounding, and counts of
    hardware layers, of layers of the runtime, and of callbacks."""
    for source in DV_NETWORKS:
        if chosen(source.name, only):
            with TemporaryDirectory() as folder:
                try:
                    net, shapes = network(source, Path(folder))
                    inputs = divided(net, _DIVIDED[source.name]) if source.name in _DIVIDED else None
                    done = net.generate("dv", Path(folder) / "project", shapes=shapes, inputs=inputs)
                except AnyLayerError as error:
                    yield source.name, error.message, *["-"] * 5
                    continue
                name = f"{source.name}, inputs / {_DIVIDED[source.name]}" if inputs else source.name
                (code,) = (f.read_text() for f in done.files if f.name.endswith("_gen.cpp"))
                conv, fc, *others, custom = (code.count(f"layer.type = LT_{kind};") for kind in _KINDS)
                rounding = _ROUNDING.search(" ".join(done.notes))
                within = rounding[1] if rounding else "< 0.002"
                counts = map(str, (conv + fc, sum(others), custom))
                yield name, "yes", f"{error_of(done):.1e}", within, *counts


def divided(net: Net, number: float) -> dict[str, np.ndarray]:
    """Return normally distributed inputs of a network, divided by a number."""
    random = np.random.default_rng(0)
    shapes = {name: kind.shape for name, kind in net.network.inputs.items()}
    return {name: (random.standard_normal(shape) / number).astype(np.float32) for name, shape in shapes.items()}


def chosen(name: str, only: Sequence[str]) -> bool:
    """Return whether a row is asked for."""
    return not only or any(part in name for part in only)


def write_docs(lines: Sequence[str]) -> None:
    """Replace the table of layers in docs/generate-measured.md."""
    before, rest = PAGE.read_text("utf-8").split(START)
    PAGE.write_text("\n".join([before + START, *lines, "", END + rest.split(END, 1)[1]]), "utf-8")


def main() -> None:
    """Print the tables, or write that of the layers to docs/generate-measured.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generated", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a part of the name of a row; may be repeated")
    parser.add_argument("--layers", action="store_true", help="leave out the networks")
    parser.add_argument("--docs", action="store_true", help="write the table of layers to the page")
    parser.add_argument("--dv", action="store_true", help="print the table for DMP's DV700")
    options = parser.parse_args()
    if options.dv:
        print("| network | built | error | rounding | hardware layers | runtime layers | callbacks |")
        print("|---|---|---:|---:|---:|---:|---:|", flush=True)
        for row in dv_rows(options.only):
            print(f"| {' | '.join(row)} |", flush=True)
        return
    lines = layer_table(options.only) if any(chosen(name, options.only) for name in RUNS) else []
    if options.docs:
        write_docs(lines)
    print("\n".join(lines), flush=True)
    if not (options.layers or options.docs):
        print("\n| network | PyTorch |\n|---|---:|", flush=True)
        for name, error in network_rows(options.only):
            print(f"| {name} | {error} |", flush=True)


if __name__ == "__main__":
    main()
