"""A small network in plain C by another project's generator: `python -m benchmarks.plain_c [EMX_ONNX_CGEN]`.

It writes the example network `examples/hed/deploy.prototxt` as ONNX, lets emx-onnx-cgen turn the file into C,
compiles the C, and prints the sizes, the time and the largest difference from the layers in NumPy: the figures of
docs/generate.md. It needs emx-onnx-cgen, best in an environment of its own, and a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import anylayer

HED = Path(__file__).parent.parent / "examples" / "hed"
SHAPE = (1, 3, 96, 96)
_RUNS = 9


def rows(generator: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (what, figure) for the example network, with files in `folder`."""
    weights = folder / "hed.caffemodel"
    subprocess.run([sys.executable, HED / "make_model.py", weights], check=True, capture_output=True)
    net = anylayer.read(HED / "deploy.prototxt", weights, layers=[HED / "layers.py"])
    net.write(folder / "hed.onnx", shapes={"data": SHAPE}, batch=1)
    run(folder, generator, "compile", "hed.onnx", "hed.c")
    run(folder, "cc", "-O2", "-fPIC", "-c", "hed.c", "-o", "hed.o")
    run(folder, "cc", "-shared", "hed.o", "-lm", "-o", "hed.so")
    yield "ONNX file", size(folder / "hed.onnx")
    yield "C source", size(folder / "hed.c")
    yield "weights beside it", size(folder / "model.bin")
    yield "object file (cc -O2)", size(folder / "hed.o")
    library = ctypes.CDLL(str(folder / "hed.so"))
    if not library.model_load(str(folder / "model.bin").encode()):
        raise RuntimeError("the C code does not load its weights")
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    want = net.compile("numpy", shapes={"data": SHAPE})(x)
    got = {name: np.full(y.shape, np.nan, np.float32) for name, y in want.items()}
    arguments = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, *got.values())]
    seconds = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        library.model(*arguments)
        seconds.append(time.perf_counter() - start)
    errors = (np.abs(got[name] - y).max() / np.abs(y).max() for name, y in want.items())
    yield "largest difference from NumPy", f"{max(errors):.1e} of an output's largest value"
    yield "time of one run, one thread", f"{1e3 * statistics.median(seconds):.0f} ms"


def run(folder: Path, *command: str) -> None:
    """Run a command in the folder. Raises RuntimeError with what it printed where it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} fails: {done.stdout}{done.stderr}")


def size(path: Path) -> str:
    """Return the size of a file."""
    return f"{path.stat().st_size / 1024:.0f} KiB"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a network in plain C.")
    parser.add_argument("generator", nargs="?", default="emx-onnx-cgen", help="the path of emx-onnx-cgen")
    generator = shutil.which(parser.parse_args().generator)
    if generator is None:
        sys.exit("needs emx-onnx-cgen: pip install emx-onnx-cgen, best in an environment of its own")
    with TemporaryDirectory() as folder:
        for what, figure in rows(str(Path(generator).absolute()), Path(folder)):
            print(f"| {what} | {figure} |")


if __name__ == "__main__":
    main()
