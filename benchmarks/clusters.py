"""Measure Ray: files on several processes, the latency of a server, and a server at saturation.

    python -m benchmarks.clusters files          Ray's workers beside one plain process per core, a row per network
    python -m benchmarks.clusters latency        a request, beside the model alone and Ray Serve's empty handler
    python -m benchmarks.clusters load --minutes 10    errors and memory at saturation

It needs the extra `ray`. Nothing else should run.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import anylayer
import anylayer.ray
from anylayer.libraries.ray import cluster, serve
from anylayer.runtime.batches import Batches
from anylayer.serve.deployment import serving
from anylayer.serve.served import Settings
from benchmarks.networks import DETECTORS, NETWORKS

NET = """
name: "small" input: "data" input_shape { dim: 1 dim: 3 dim: 112 dim: 112 }
layer { name: "c1" type: "Convolution" bottom: "data" top: "c1"
        convolution_param { num_output: 64 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "c2" type: "Convolution" bottom: "c1" top: "c2" convolution_param { num_output: 128 kernel_size: 3 }
} layer { name: "r2" type: "ReLU" bottom: "c2" top: "c2" } layer { name: "c3" type: "Convolution" bottom: "c2" top:
"c3"
        convolution_param { num_output: 128 kernel_size: 3 stride: 2 } }
layer { name: "pool" type: "Pooling" bottom: "c3" top: "pool" pooling_param { pool: AVE global_pooling: true } }
"""
PORT = 8971
COUNTED = {"small": 3, "mobilenet_v2": 4, "se_bn_inception": 20, "vgg_ssd300": 300}
"""The networks whose files are counted, with about the milliseconds per file of one thread."""
LEAST = 128
"""The least files per process: four results. The first one is not counted."""
Sample = tuple[float, dict[int, tuple[str, float]]]
"""A time, and by process its name and the CPU seconds that it has used."""
BATCH = 1
"""Samples that run together. What a process would choose by measurement differs from run to run."""


def network(folder: Path, name: str = "small") -> anylayer.Net:
    """Return a network with random weights: the one above, or one that benchmarks/networks generates."""
    text, dialect = NET, None
    if name != "small":
        source = next(one for one in (*NETWORKS, *DETECTORS) if one.name == name)
        assert source.make is not None, name
        text, dialect = source.make(), source.dialect
    (folder / f"{name}.prototxt").write_text(text)
    return anylayer.read(folder / f"{name}.prototxt", dialect=dialect).fill()


def load(log: str, path: str) -> dict[str, Any]:
    """Return the input in a file. A line of the process's log says when that was."""
    with Path(log, str(os.getpid())).open("a") as file:
        file.write(f"{time.time()}\n")
    return {"data": np.load(path)}


def _rate(log: Path) -> float:
    """Return files per second, from the times at which each process began to read its batches.

    A batch begins where reading pauses. The first one is not counted, because the network is compiled in it. The
    times between the first and the last one that are left are those of whole batches.
    """
    total = 0.0
    for file in log.iterdir():
        times = np.array(file.read_text().split(), float)
        begins = 1 + np.flatnonzero(np.diff(times) > 10 * np.median(np.diff(times)))
        if len(begins) > 1:
            total += float((begins[-1] - begins[0]) / (times[begins[-1]] - times[begins[0]]))
    return total


def _sampled(samples: list[Sample], seconds: float, done: threading.Event) -> None:
    """Add the CPU seconds of this process and its descendants to `samples`, until `done` is set."""
    import psutil

    own = psutil.Process()
    while not done.wait(seconds):
        found: dict[int, tuple[str, float]] = {}
        for one in (own, *own.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                names = [
                    Path(word).name for word in one.cmdline() if re.search(r"^ray::|\.py$|_server$|raylet$", word)
                ]
                times = one.cpu_times()
                found[one.pid] = names[0] if names and one != own else "program", times.user + times.system
        samples.append((time.time(), found))


def _cpu(samples: list[Sample], log: Path) -> dict[str, float]:
    """Return the CPU milliseconds per file of the workers, as "worker", and for each other process the share of
    one core per worker that it uses. They are measured when all workers have compiled the network.
    """
    times = {int(file.name): np.array(file.read_text().split(), float) for file in log.iterdir()}
    begin, end = max(one[LEAST // 2] for one in times.values()), min(one[-1] for one in times.values())
    within = [sample for sample in samples if begin <= sample[0] <= end]
    (start, first), (stop, last) = within[0], within[-1]
    files = sum(int(np.sum((one >= start) & (one < stop))) for one in times.values())
    found = {"worker": 0.0}
    for number, (name, seconds) in last.items():
        used = seconds - first.get(number, (name, 0.0))[1]
        if number in times:
            found["worker"] += 1e3 * used / files
        else:
            found[name] = found.get(name, 0.0) + used / (stop - start) / len(times)
    return found


def _process(folder: str, name: str, files: list[str]) -> None:
    """Do what one of Ray's workers does, without Ray."""
    from anylayer.libraries.pyarrow import write_parquet

    own = Path(folder, str(os.getpid()))
    own.mkdir()
    net = network(own, name)
    model = net.compile("onnxruntime", threads=1)
    batches = Batches(model, {n: t for n, t in net.inputs.items() if t is not None}, BATCH)
    for i in range(0, len(files), 32):
        part = files[i : i + 32]
        found = [one for one in batches([load(f"{folder}-log", f) for f in part]) if isinstance(one, dict)]
        columns = {key: [outputs[key] for outputs in found] for key in model.outputs}
        write_parquet(Path(folder, f"{os.getpid()}-{i}.parquet"), {"path": part, **columns})


def files(name: str, count: int, workers: int, turns: int) -> dict[str, float]:
    """Return files per second of plain processes and of Ray, one process per worker.

    Both are measured in each turn, every other time in the other order. The ratio is the median of the turns'
    ratios, `least` and `largest` are their limits. `ms` is the time per file of a plain process. `cpu` is the
    ratio by CPU seconds, which other programs disturb less; what `_cpu` returns follows.
    """
    rates: dict[str, list[float]] = {"plain": [], "ray": []}
    used: dict[str, list[dict[str, float]]] = {"plain": [], "ray": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        net = network(folder, name)
        shape = next(kind.shape for kind in net.inputs.values() if kind is not None)
        random = np.random.default_rng(0)
        np.save(folder / "x.npy", random.standard_normal((1, *shape[1:]), np.float32))
        paths = [str(folder / f"{i:05}.npy") for i in range(count)]
        for path in paths:
            os.link(folder / "x.npy", path)
        for turn in range(turns):
            for way in ("plain", "ray") if turn % 2 == 0 else ("ray", "plain"):
                out, log = folder / f"{way}{turn}", folder / f"{way}{turn}-log"
                log.mkdir()
                samples, done = list[Sample](), threading.Event()
                thread = threading.Thread(target=_sampled, args=(samples, 1.0, done))
                thread.start()
                if way == "plain":
                    _plain(name, paths, workers, out)
                else:
                    _ray(net, paths, workers, out, log)
                done.set()
                thread.join()
                rates[way].append(_rate(log))
                used[way].append(_cpu(samples, log))
                shutil.rmtree(out)
    ratios = [ray / plain for plain, ray in zip(rates["plain"], rates["ray"])]
    medians = {way: median(found) for way, found in rates.items()}
    ratio = {"ratio": median(ratios), "least": min(ratios), "largest": max(ratios)}
    cpu = {way: {key: median(one.get(key, 0.0) for one in each) for key in each[0]} for way, each in used.items()}
    plain, ray = ((1 + one["worker"] - sum(one.values())) / one["worker"] for one in cpu.values())
    shares = {f"{way} {key}": value for way, each in cpu.items() for key, value in each.items() if value > 1e-4}
    return {"ms": 1e3 * workers / medians["plain"], **medians, **ratio, "cpu": ray / plain, **shares}


def _ray(net: anylayer.Net, paths: list[str], workers: int, out: Path, log: Path) -> None:
    more: dict[str, Any] = {
        "prepare": partial(load, str(log)),
        "actors": workers,
        "engine": "onnxruntime",
        "batch": BATCH,
    }
    with cluster(cpus=workers):
        anylayer.ray.map(paths, net, out, **more)


def _plain(name: str, paths: list[str], workers: int, out: Path) -> None:
    out.mkdir()
    context = multiprocessing.get_context("spawn")
    parts = [paths[i::workers] for i in range(workers)]
    processes = [context.Process(target=_process, args=(str(out), name, part)) for part in parts]
    for one in processes:
        one.start()
    for one in processes:
        one.join()


class Empty:
    """Ray Serve's empty handler: it reads the request, and answers with as many bytes as the network."""

    def __init__(self, size: int) -> None:
        self._answer = bytes(size)

    async def __call__(self, request: Any) -> Any:
        from anylayer.libraries.starlette import Response

        await request.body()
        return Response(self._answer)


def _message(x: Any) -> tuple[bytes, dict[str, str]]:
    tensor = {"name": "data", "shape": x.shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def _post(connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    found = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {found[:200]!r}")
    return found


def latency(rounds: int) -> dict[str, float]:
    """Return the median milliseconds of the model alone, of an empty handler and of a request."""
    with tempfile.TemporaryDirectory() as name, cluster(cpus=2):
        net = network(Path(name))
        networks = [(net, Settings("small", "onnxruntime", threads=1))]
        with serving(networks, port=PORT):
            x = np.random.default_rng(0).standard_normal((1, 3, 112, 112), np.float32)
            body, headers = _message(x)
            connection = http.client.HTTPConnection("127.0.0.1", PORT)
            size = len(_post(connection, "/v2/models/small/infer", body, headers))
            serve().run(serve().deployment(Empty).bind(size), name="empty", route_prefix="/empty")
            model = net.compile("onnxruntime", threads=1)
            ways: dict[str, Callable[[], object]] = {
                "model": lambda: model(x),
                "empty": lambda: _post(connection, "/empty", body, headers),
                "request": lambda: _post(connection, "/v2/models/small/infer", body, headers),
            }
            times: dict[str, list[float]] = {way: [] for way in ways}
            for i in range(rounds + 20):
                for way, call in ways.items():
                    begin = time.perf_counter()
                    call()
                    if i >= 20:
                        times[way].append(time.perf_counter() - begin)
    found = {way: median(values) * 1e3 for way, values in times.items()}
    return {**found, "ratio": found["request"] / (found["model"] + found["empty"])}


def saturation(minutes: float, clients: int) -> dict[str, float]:
    """Return requests per second, errors, and the memory of the server's processes in MB, early and at the end."""
    import psutil

    counts, errors = [0] * clients, [0] * clients
    with tempfile.TemporaryDirectory() as name, cluster(cpus=2):
        networks = [(network(Path(name)), Settings("small", "onnxruntime", threads=1))]
        with serving(networks, port=PORT):
            body, headers = _message(np.zeros((1, 3, 112, 112), np.float32))
            end = time.monotonic() + 60 * minutes

            def client(number: int) -> None:
                connection = http.client.HTTPConnection("127.0.0.1", PORT)
                while time.monotonic() < end:
                    try:
                        _post(connection, "/v2/models/small/infer", body, headers)
                        counts[number] += 1
                    except Exception:
                        errors[number] += 1
                        connection = http.client.HTTPConnection("127.0.0.1", PORT)

            def memory() -> float:
                own = psutil.Process().children(recursive=True)
                return (
                    sum(one.memory_info().rss for one in own if "ServeReplica" in " ".join(one.cmdline())) / 2**20
                )

            threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
            for thread in threads:
                thread.start()
            time.sleep(60 * minutes / 5)
            early = memory()
            time.sleep(60 * minutes * 0.75)
            late = memory()
            for thread in threads:
                thread.join()
    return {"per_second": sum(counts) / (60 * minutes), "errors": sum(errors), "early_mb": early, "late_mb": late}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["files", "latency", "load"])
    parser.add_argument("--count", type=int, default=2000, help="rounds of the latency")
    parser.add_argument("--seconds", type=float, default=60, help="about the time of each run over files")
    parser.add_argument("--networks", nargs="+", default=list(COUNTED), choices=COUNTED, metavar="NAME")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--clients", type=int, default=16)
    given = parser.parse_args()
    if given.part == "files":
        for name in given.networks:
            count = max(LEAST * given.workers, int(1e3 * given.seconds * given.workers / COUNTED[name]))
            row = files(name, count, given.workers, given.turns)
            print(
                f"{name}: {count} files, " + ", ".join(f"{key} {value:.3g}" for key, value in row.items()),
                flush=True,
            )
        return
    if given.part == "latency":
        found = latency(given.count)
    else:
        found = saturation(given.minutes, given.clients)
    for name, value in found.items():
        print(f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()
