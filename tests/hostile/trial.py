"""Try networks as a user does, in a process of its own.

`python -m tests.hostile.trial` reads one job per line (JSON) from stdin and answers each with one line. A job is
{"files": {name: base64}, "model": name, "weights": name or null, "options": {...}, "engines": [...], "write":
[names of files to write]}. To test the limits themselves it is {"sleep": seconds} or {"exit": status}. The answer
is {"end": "ok" | the error's class, "text": its message, or what inspect refuses, "trace": ..., "seconds":
processor time, "peak": MiB that it added, "values": MiB of the network's inputs and of what its layers return}.
`Trials` is the other side: it starts the process, limits its memory and processor time, and reports what ended it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.engine_names import ALL

ROOT = Path(__file__).parents[2]
ENGINES = ALL
FEW = 1 << 22
"""The largest numbers of values and multiply-adds of a network that is not only compiled, but also run."""


@dataclass(frozen=True)
class End:
    """How a job ended: "ok", the class of an error, "died" or "hung"."""

    end: str
    text: str = ""
    trace: str = ""
    seconds: float = 0.0
    peak: float = 0.0
    values: float = 0.0

    @property
    def fine(self) -> bool:
        """Return whether it is an acceptable result: success, or an error that describes the fault of the file."""
        return self.end == "ok" or self.end in _errors()


def _errors() -> frozenset[str]:
    from anylayer import errors

    return frozenset(
        n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.AnyLayerError)
    )


class Trials:
    """A process that tries networks. It is started again after a network has killed it.

    `memory`: its address space in MiB. `seconds`: the processor time that a single job may take. `patience`: a job
    may wait this many times as long.
    """

    def __init__(self, memory: int = 8000, seconds: float = 20.0, patience: float = 20.0) -> None:
        self.memory, self.seconds, self.wait = memory, seconds, patience * seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def run(
        self,
        model: str | bytes,
        weights: bytes | None = None,
        *,
        engines: Sequence[str] = ENGINES,
        write: Sequence[str] = (),
        name: str = "deploy.prototxt",
        weights_name: str = "net.caffemodel",
        options: Mapping[str, Any] | None = None,
    ) -> End:
        """Read, inspect, compile and run a network."""
        files = {name: model.encode() if isinstance(model, str) else model}
        if weights is not None:
            files[weights_name] = weights
        return self.job(
            {
                "files": {n: base64.b64encode(d).decode() for n, d in files.items()},
                "model": name,
                "weights": weights_name if weights is not None else None,
                "options": dict(options or {}),
                "engines": list(engines),
                "write": list(write),
            }
        )

    def files(self, files: Mapping[str, bytes], model: str, weights: str | None = None, **more: Any) -> End:
        """Do the same as `run` with any number of files of any names."""
        packed = {n: base64.b64encode(d).decode() for n, d in files.items()}
        job = {"files": packed, "model": model, "weights": weights, "options": {}, "engines": list(ENGINES)}
        return self.job({**job, **more})

    def job(self, job: Mapping[str, Any]) -> End:
        """Do one job."""
        process = self._started()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        process.stdin.write(json.dumps({**job, "limit": self.seconds}).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.wait)
        line = process.stdout.readline() if ready else b""
        if line:
            return End(**json.loads(line))
        if ready:
            self._process = None
            process.wait()
            if process.returncode == -signal.SIGXCPU:
                return End("hung", f"took more than {self.seconds} s of the processor")
            return End("died", f"exit status {process.returncode}")
        self.stop()
        return End("hung", f"no answer in {self.wait} s")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.trial", str(self.memory)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
            if self._process.stdout is None or self._process.stdout.readline() != b"ready\n":
                raise RuntimeError("the process did not start")
        return self._process


# ---------------------------------------------------------------- the process's side


def attempt(job: Mapping[str, Any], answer: dict[str, Any]) -> str:
    """Read the job's network, inspect it, and compile it on each engine; if it is small, run it. Return what
    inspect says about the layers that it refuses. `answer` gets "values".
    """
    import anylayer

    if "sleep" in job:
        time.sleep(job["sleep"])
    while job.get("spin"):
        pass
    if "exit" in job:
        os._exit(job["exit"])
    model, weights = Path(job["model"]), job["weights"]
    if job.get("opencv"):
        _opencv(model, Path(weights) if weights else None, job["opencv"], answer)
        return ""
    if job.get("kind") in ("library", "request"):
        (_library if job["kind"] == "library" else _request)(model)
        return ""
    net = anylayer.read(model, Path(weights) if weights else None, **job["options"])
    answer["values"] = _size_of_values(net)
    refused, report = "", None
    if job.get("inspect", True):
        report = net.inspect()
        str(report), json.dumps(report.to_dict(), default=str), report._repr_html_()
        refused = "; ".join(n.reason for n in report.nodes if n.where == "refused")
    if any(t is None for t in net.inputs.values()) or not net.network.outputs:
        return refused
    for engine in job["engines"]:
        report = report or net.inspect()
        _engine(net, report, engine)
    for name in job.get("write", ()):
        if not net.network.weights:
            net.fill()
        net.write(name)
    return refused


FRAMEWORKS = {
    ".prototxt": "caffe",
    ".cfg": "darknet",
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".pb": "tensorflow",
    ".pbtxt": "tensorflow",
    ".xml": "openvino",
}
"""OpenCV's name of the format of a file of a network, by suffix."""


def opencv_net(model: Path, weights: Path | None, how: str) -> Any:
    """Return a network that is read with the interface of OpenCV, from "files" or from "buffers"."""
    from anylayer import opencv

    try:
        if how == "files":
            return opencv.readNet(model, weights or "")
        buffers = [model.read_bytes(), weights.read_bytes() if weights else b""]
        if weights is not None:
            buffers.reverse()
        return opencv.readNet(FRAMEWORKS[model.suffix], *buffers)
    except opencv.error as error:
        raise error.__cause__ or error from None


def _opencv(model: Path, weights: Path | None, how: str, answer: dict[str, Any]) -> None:
    """Read, describe and run a network with the interface of OpenCV."""
    import numpy as np

    from anylayer import opencv
    from anylayer.opencv.table import FIRST, layouts_of

    net = opencv_net(model, weights, how)
    answer["values"] = _size_of_values(net.net)
    try:
        net.getLayerTypes(), net.getUnconnectedOutLayersNames(), net.dump()
        types = net.net.inputs
        if any(t is None or not all(isinstance(d, int) for d in t.shape) for t in types.values()):
            return
        net.net.fill()
        report, layouts = net.net.inspect(), layouts_of(net.net.network)
        if not _is_small(report) or report.totals["macs"] >= FEW * 16:
            return
        for name, kind in types.items():
            zeros = np.zeros(kind.shape, kind.dtype)
            is_last = layouts.get(name) == "NHWC" and zeros.ndim in FIRST
            net.setInput(zeros.transpose(FIRST[zeros.ndim]) if is_last else zeros, name)
        net.forward()
    except opencv.error as error:
        raise error.__cause__ or error from None


def _library(path: Path) -> None:
    """Check a library as before it is loaded."""
    from anylayer.kernels.files import need_library

    need_library(path)


@cache
def _served() -> Any:
    """Return a network that is served, whose input may be a picture."""
    import anylayer
    from anylayer.images.files import decode_image
    from anylayer.serve.served import Served, Settings
    from tests.hostile.networks import SMALL, layer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_text(SMALL + layer("ReLU", "", ["data"], ["relu"], "relu"))
        net = anylayer.read(path)

    def decoded(picture: bytes) -> Any:
        return decode_image(picture).transpose(2, 0, 1)[None].astype("float32")

    return Served(net, Settings("net", "numpy", decode={"data": decoded}))


def _request(path: Path) -> None:
    """Answer a request to a server, of which the length of the JSON comes first where the suffix is .request."""
    from anylayer.errors import AnyLayerError, at
    from anylayer.serve.protocol import parse, response

    body, served = path.read_bytes(), _served()
    size = int.from_bytes(body[:4], "little") if path.suffix == ".request" else None
    with at(str(path)):
        wanted = parse(body if size is None else body[4:], size)
        ((found, _),) = served.run([served.inputs(wanted)])
        if isinstance(found, AnyLayerError):
            raise found
        b"".join(response("net", wanted, found)[0])


def _size_of_values(net: Any) -> float:
    """Return the size of a network's inputs, and of what its layers return, in MiB."""
    from anylayer.errors import AnyLayerError

    types = [*net.inputs.values()]
    with contextlib.suppress(AnyLayerError):
        types += [kind for node in net.inspect().nodes for _, kind in node.outputs]
    return min(sum(map(_bytes, types)), 2**60) / 2**20


def _bytes(value: Any) -> int:
    """Return the bytes of an array of a type; 0 where it is not known, or a size is not."""
    if value is None or not all(isinstance(d, int) for d in value.shape):
        return 0
    return int(math.prod(value.shape) * value.dtype.itemsize)


def _is_small(report: Any) -> bool:
    """Return whether every value of a network is small."""
    return all(
        t is not None and math.prod(d for d in t.shape if isinstance(d, int)) < FEW
        for n in report.nodes
        for _, t in [*n.inputs, *n.outputs]
    )


def _engine(net: Any, report: Any, engine: str) -> None:
    import numpy as np

    small = _is_small(report)
    if not net.network.weights:
        claimed = report.totals["weights"]
        if claimed < FEW:
            net.fill()
    model = net.compile(engine=engine, threads=1)
    if small and report.totals["macs"] < FEW * 16:
        model({name: np.zeros(t.shape, t.dtype) for name, t in net.inputs.items()})


def _answer(job: Mapping[str, Any]) -> dict[str, Any]:
    start = time.process_time()
    limit = int(start + job.get("limit", 3600)) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    _forget_peak()
    before = _peak()  # which the last file may have left
    answer: dict[str, Any] = {"end": "ok"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, data in job.get("files", {}).items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(base64.b64decode(data))
        try:
            answer["text"] = attempt(job, answer)[:3000]
        except Exception as error:
            shown = "".join(traceback.format_exception(error))[-6000:]
            answer |= {"end": type(error).__name__, "text": str(error)[:3000], "trace": shown}
        os.chdir(ROOT)
    return {**answer, "seconds": time.process_time() - start, "peak": _peak() - before}


def _forget_peak() -> None:
    """Reset the peak of memory, if the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    """Return the peak of memory since then, in MiB."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(memory: int) -> None:
    """Answer jobs until stdin ends."""
    import warnings

    import onnxruntime
    import openvino

    from anylayer.layer import Registry

    Registry.of("caffe").definitions()
    openvino.Core(), onnxruntime.__version__
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (memory << 20, memory << 20))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
