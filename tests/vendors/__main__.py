"""python -m tests.vendors: run files that anylayer writes in the tools of two vendors.

The networks are those of golden_sophgo (reference data) and of examples/. Each is written for Sophgo's Caffe and
RKNN, if the target has its layers, and run there on the inputs of the golden data or on seeded noise. The outputs
are compared with the layers in NumPy: to 1e-5 of the largest value in Sophgo's Caffe, and to 1e-3 in RKNN's
simulator, which computes in float16. `model_transform` of tpu-mlir converts the file and compares every blob with
its own Caffe. Its converter lacks some layers: then the network's original file fails as well.

RKNN also reads networks of Darknet: see darknet.py. What it computes is compared with the layers in NumPy.

`make test-vendors` installs both tools in environments of their own, and calls this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tools.reference import REFERENCE, absent

import anylayer
from anylayer.errors import AnyLayerError
from anylayer.network import Array

from . import darknet

ROOT = Path(__file__).parents[2]
NETS = REFERENCE / "golden_sophgo" / "Nets"
HERE = Path(__file__).parent
_IN_PYTHON = ("FrcnDetection", "Proposal", "YoloDetection")
"""Layers of Sophgo's Caffe that run in Python here, and are written unchanged."""
MAX_SECONDS = 600
"""The time limit for one run of a vendor's tool."""
TOLERANCES = {"sophgo": 1e-5, "rknn": 1e-3}
"""The largest difference, relative to the largest value of an output."""


@dataclass(frozen=True)
class Case:
    """A network with inputs. original: its prototxt and caffemodel, if it was read from Caffe."""

    name: str
    net: anylayer.Net
    inputs: Mapping[str, Array]
    original: tuple[Path, Path] | None = None


def cases() -> Iterator[Case]:
    """Yield the networks of the golden data that anylayer reads, and those of examples/."""
    if reason := absent("golden_sophgo/Nets"):
        print(reason)
    for folder in sorted(NETS.glob("*")):
        inputs = {
            n: np.load(folder / f"input_{n}.npy") for n in json.loads((folder / "case.json").read_text())["inputs"]
        }
        files = folder / "deploy.prototxt", folder / "weights.caffemodel"
        yield Case(folder.name, anylayer.read(*files, dialect="sophgo"), inputs, files)
    random = np.random.default_rng(0)
    hed = anylayer.read(ROOT / "examples/hed/deploy.prototxt", layers=[ROOT / "examples/hed/layers.py"]).fill()
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # as ONNX operators, since no vendor has the layers of the example
        hed.write(Path(folder) / "hed.onnx", shapes={"data": (1, 3, 64, 96)})
        net = anylayer.read(Path(folder) / "hed.onnx")
        yield Case("examples/hed", net, {"data": random.standard_normal((1, 3, 64, 96), np.float32)})
    keras = anylayer.read(ROOT / "examples/keras_blog/model.keras")
    yield Case(
        "examples/keras_blog", keras, {n: random.random(t.shape, np.float32) for n, t in keras.inputs.items() if t}
    )


def environment(name: str) -> dict[str, str]:
    """Return the environment variables for the tools in an environment: tpu-mlir finds its libraries by them."""
    root = next((ROOT / f".venv-{name}").glob("lib/python3.*/site-packages/tpu_mlir"), Path())
    path = f"{ROOT / f'.venv-{name}' / 'bin'}:{root / 'bin'}:{root / 'python' / 'tools'}:{os.environ['PATH']}"
    libraries = f"{root / 'lib'}:{root / 'lib' / 'third_party'}"
    python = f"{root / 'python'}"
    return {
        "LD_LIBRARY_PATH": libraries,
        "TPUC_ROOT": str(root),
        "PATH": path,
        "PYTHONPATH": python,
        "GLOG_minloglevel": "3",
    }


def run(name: str, command: list[str], folder: Path) -> str:
    """Run a program by the Python of an environment. Return "" or why it failed."""
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | (
        environment(name) if name == "sophgo" else {}
    )
    python = ROOT / f".venv-{name}" / "bin" / "python"
    with (folder / "log").open("w") as log:
        try:
            done = subprocess.run(
                [str(python), *command],
                cwd=folder,
                stdout=log,
                stderr=log,
                env=variables,
                timeout=MAX_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"took more than {MAX_SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = (folder / "log").read_text(errors="replace").splitlines()
    said = [line for line in lines if "support" in line or "Error" in line]
    return f"fails with status {done.returncode}: {(said or lines or ['no message'])[-1][:160]}"


def difference(wanted: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    """Return the largest difference of an output, relative to its largest value.

    Outputs are matched by name, or by order. Raises ValueError if there is nothing to compare.
    """
    if sum(x.size for x in wanted.values()) == 0:
        raise ValueError("the network has no outputs to compare")
    worst = 0.0
    for i, (name, want) in enumerate(wanted.items()):
        found = got[name] if name in got else got[str(i)]
        if found.size != want.size:
            return float("inf")
        scale = max(float(np.abs(want).max(initial=0)), 1e-9)
        worst = max(worst, float(np.abs(found.reshape(want.shape) - want).max(initial=0)) / scale)
    return worst


def without_last_softmax(text: str) -> str:
    """Return a written prototxt without the Softmax layers at its end.

    In float16 a softmax of scores up to 84 differs by 1e-2, although the scores are right.
    """
    layers = text.split("\nlayer {")
    while '\n  type: "Softmax"\n' in layers[-1]:
        layers.pop()
    return "\nlayer {".join(layers).rstrip() + "\n"


def judge(case: Case, target: str, folder: Path) -> str:
    """Write a network for a target, run it there, and return the result as the text of a table's cell."""
    path = folder / "net.prototxt"
    try:
        shapes = {n: x.shape for n, x in case.inputs.items()}
        types = {node.type for node in case.net.network.nodes}
        keep = [t for t in _IN_PYTHON if t in types and target == "sophgo"]
        case.net.write(path, dialect=target, shapes=shapes, verify=case.inputs, keep=keep)
    except AnyLayerError as error:
        return f"refused: {' '.join(error.message.split())}"
    if target == "rknn":
        path.write_text(without_last_softmax(path.read_text()))
    written = anylayer.read(path, path.with_suffix(".caffemodel"), dialect=target)
    inputs = {  # the file takes channels-first arrays
        own: x.transpose(0, 3, 1, 2) if case.net.network.layouts.get(n) == "NHWC" and x.ndim == 4 else x
        for own, (n, x) in zip(written.inputs, case.inputs.items())
    }
    np.savez(folder / "in.npz", **inputs)
    command = [str(HERE / f"run_{target}.py"), path.name, "net.caffemodel", "in.npz", "out.npz"]
    failed = run(target, command, folder)
    if failed:
        return f"FAILED: {failed}"
    error = difference(written.compile("numpy")(inputs), np.load(folder / "out.npz"))
    return f"{'equal' if error <= TOLERANCES[target] else 'DIFFERS'}: {error:.1e}"


def transform(case: Case, folder: Path) -> str:
    """Convert the written files by tpu-mlir's model_transform, and the original ones if that fails."""
    failed = transformed(folder, Path("net.prototxt"), Path("net.caffemodel"))
    if failed and case.original is not None and transformed(folder, *case.original):
        return f"original file fails, too: {failed}"
    return f"FAILED: {failed}" if failed else "passed"


def transformed(folder: Path, text: Path, weights: Path) -> str:
    """Convert a network by model_transform, which compares each blob with its own Caffe. Return why it fails."""
    shapes = [list(x.shape) for x in np.load(folder / "in.npz").values()]
    tool = environment("sophgo")["TPUC_ROOT"] + "/python/tools/model_transform.py"
    command = [tool, "--model_name", "net", "--model_def", str(text), "--model_data", str(weights)]
    command += [
        "--input_shapes",
        str(shapes).replace(" ", ""),
        "--test_input",
        "in.npz",
        "--test_result",
        "top.npz",
    ]
    return run("sophgo", [*command, "--mlir", "net.mlir"], folder)


def main() -> int:
    """Print the table. Return 1 if a file that was written is not right in a tool."""
    rows = []
    print("| network | Sophgo's Caffe | model_transform | RKNN's simulator |\n|---|---|---|---|")
    for case in cases():
        row = [case.name]
        for target in TOLERANCES:
            with tempfile.TemporaryDirectory() as name:
                row.append(judge(case, target, Path(name)))
                if target == "sophgo":
                    row.append(transform(case, Path(name)) if row[-1].startswith("equal") else "-")
        rows.append(row)
        print(f"| {' | '.join(row)} |", flush=True)
    print("\n| network of Darknet | RKNN's simulator |\n|---|---|")
    for row in darknet.rows(lambda folder: run("rknn", [str(HERE / "run_rknn_darknet.py"), str(folder)], folder)):
        rows.append([*row])
        print(f"| {' | '.join(row)} |", flush=True)
    bad = [row[0] for row in rows if any("FAILED" in cell or "DIFFERS" in cell for cell in row)]
    print(f"{len(rows)} networks, not right: {', '.join(bad) or 'none'}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
