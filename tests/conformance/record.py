"""Record what a Caffe computes, as golden data: `python tests/conformance/record.py --dialect DIALECT FOLDER...`.

Run it with the Python of that Caffe, which needs NumPy and pycaffe, and nothing of this project. Each folder,
`<Layer>/<case>`, has a `deploy.prototxt`, and may have `weights.caffemodel` and `input_<blob>.npy`. If they are
absent, weights from the fillers and seeded noise are added. Each file runs in a process of its own, because Caffe
aborts if it refuses a file. Then `output_<blob>.npy` and `case.json` are written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path


def record(folder: Path, dialect: str) -> None:
    """Compute the outputs of a case. Write `case.json` last."""
    import numpy as np

    import caffe  # type: ignore[import-not-found]  # of the Caffe whose Python runs this

    weights = folder / "weights.caffemodel"
    net = caffe.Net(str(folder / "deploy.prototxt"), *[str(weights)] * weights.exists(), caffe.TEST)
    if net.params and not weights.exists():
        net.save(str(weights))
    random = np.random.RandomState(0)
    for name in net.inputs:
        path = folder / f"input_{name}.npy"
        if not path.exists():
            np.save(str(path), random.standard_normal(net.blobs[name].data.shape).astype(np.float32))
        x = np.load(str(path))
        net.blobs[name].reshape(*x.shape)
        net.blobs[name].data[...] = x
    for name, y in net.forward().items():
        np.save(str(folder / f"output_{name}.npy"), y)
    describe(folder, dialect, inputs=list(net.inputs), outputs=list(net.outputs), weights=weights.exists())


def describe(folder: Path, dialect: str, **facts: object) -> None:
    """Write what the tests read about a case."""
    case = {"layer": folder.parent.name, "case": folder.name, "dialect": dialect, "note": "", **facts}
    (folder / "case.json").write_text(json.dumps(case, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialect", required=True, help="the dialect in which anylayer reads files of this Caffe")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    for folder in (path.resolve() for path in options.folders):
        if options.here:
            record(folder, options.dialect)
            continue
        words = [sys.executable, __file__, "--here", "--dialect", options.dialect, str(folder)]
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            print(f"{folder}: recorded")
            continue
        failed = [line for line in done.stderr.splitlines() if "Check failed" in line]
        if not failed:
            sys.exit(f"{folder}: the process ends with {done.returncode}\n{done.stderr}")
        inputs = sorted(path.stem[len("input_") :] for path in folder.glob("input_*.npy"))
        describe(folder, options.dialect, inputs=inputs, outputs=[], rejected=failed[-1])
        print(f"{folder}: rejected: {failed[-1]}")


if __name__ == "__main__":
    main()
