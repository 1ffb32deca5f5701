"""`anylayer serve` in a process of its own: clients, pictures, refusals, metrics, and how it stops."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from queue import Queue
from threading import Timer
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import anylayer
from anylayer.cli import main
from anylayer.errors import EngineError
from anylayer.images.files import read_image
from anylayer.images.preprocess import Recipe, prepare
from tests.layer_files import write_layer

pytest.importorskip("ray.serve", reason="ray[serve] is not installed", exc_type=ImportError)

NET = """
name: "small" input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "mine" type: "Mine" bottom: "data" top: "mine" }
layer { name: "fc" type: "InnerProduct" bottom: "mine" top: "fc" inner_product_param { num_output: 5
  weight_filler { type: "constant" value: 0.01 } } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""
SLOW = '''"""A layer that waits for the test if a value is above a million, and cannot be traced."""

import time
from pathlib import Path

import anylayer


@anylayer.layer("Slow")
class Slow:
    def __init__(self, params, blobs):
        self.folder = Path(params["folder"])

    def forward(self, inputs):
        if float(str(inputs[0].max())) > 1e6:
            (self.folder / "began").touch()
            while not (self.folder / "end").exists():
                time.sleep(0.02)
        return [inputs[0]]
'''
WAITING = """layer { name: "slow" type: "Slow" bottom: "data" top: "slow" slow_param { folder: "%s" } }
layer { name: "mine" type: "Mine" bottom: "slow\""""


@dataclass
class Server:
    """A running server. `net` is one of its networks, read in this process."""

    port: int
    metrics: int
    process: subprocess.Popen[str]
    folder: Path
    net: anylayer.Net

    def get(self, path: str, data: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, named)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def infer(self, x: np.ndarray, model: str = "small") -> tuple[int, Any]:
        tensor = {"name": "data", "shape": x.shape, "datatype": "FP32", "data": x.ravel().tolist()}
        return self.get(f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor]}).encode())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    """The server that runs, if a test has needed one and none has stopped it. Starting it takes many seconds."""
    found: list[Server] = []
    yield found
    for one in found:
        stop(one.process)


@pytest.fixture
def server(servers: list[Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The server of two networks. The network 'small' waits during requests with values above a million."""
    if not servers:
        servers.append(started(tmp_path_factory.mktemp("served")))
    return servers[0]


def write_waiting(folder: Path) -> None:
    """Write the network "small", which waits during requests with values above a million, and its layers."""
    write_layer(folder, "factors", "*", 0.5)
    (folder / "slow.py").write_text(SLOW)
    waiting = NET.replace('layer { name: "mine" type: "Mine" bottom: "data"', WAITING % folder)
    (folder / "small.prototxt").write_text(waiting)


def asked(server: Server, pool: ThreadPoolExecutor) -> list[Future[tuple[int, Any]]]:
    """Send three requests for which the network "small" waits, and return once the first is being computed."""
    slow = np.full((1, 3, 8, 8), 2e6, np.float32)
    for file in (server.folder / "began", server.folder / "end"):
        file.unlink(missing_ok=True)
    answers = [pool.submit(server.infer, slow) for _ in range(3)]
    while not (server.folder / "began").exists() and not answers[0].done():
        time.sleep(0.02)
    time.sleep(0.5)  # the others arrive
    return answers


def started(folder: Path) -> Server:
    """Start the server, and return it once it serves."""
    (folder / "fast.prototxt").write_text(NET)
    write_waiting(folder)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)).save(folder / "a.png")
    net = anylayer.read(folder / "fast.prototxt", layers=[folder / "layers.py"]).fill()
    net.write(folder / "weighted.onnx", batch=True)
    port, metrics = free_port(), free_port()
    words = ["serve", "small.prototxt", "onnx=weighted.onnx", "-l", "layers.py", "-l", "slow.py"]
    words = [*words, "--random-weights", "-e", "onnxruntime", "--threads", "1", "--max-size", "1"]
    process = running(folder, [*words, "--port", str(port), "--metrics-port", str(metrics)])
    return Server(port, metrics, process, folder, net)


def running(folder: Path, words: list[str]) -> subprocess.Popen[str]:
    """Start the command, and wait until it serves. After ten minutes, fail with what it has said."""
    source = str(Path(anylayer.__file__).parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": source,
        "RAY_metrics_report_interval_ms": "1000",
        "HOME": str(folder),
    }
    command = [sys.executable, "-m", "anylayer", *words]
    one = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert one.stderr is not None
    lines = []
    limit = Timer(600, one.kill)
    limit.start()
    for line in one.stderr:
        lines.append(line)
        if line.startswith("serving at "):
            limit.cancel()
            return one
    limit.cancel()
    raise AssertionError("".join(lines))


def stop(one: subprocess.Popen[str]) -> int:
    one.send_signal(signal.SIGTERM)
    return one.wait(60)


def test_results_are_those_of_numpy(server: Server) -> None:
    x = np.random.default_rng(1).standard_normal((3, 3, 8, 8), np.float32)
    want = server.net.compile("numpy", shapes={"data": x.shape})(x)["prob"]
    for model in ("small", "onnx"):
        status, found = server.infer(x, model)
        assert (status, found["model_name"], found["outputs"][0]["shape"]) == (200, model, [3, 5])
        np.testing.assert_allclose(np.reshape(found["outputs"][0]["data"], (3, 5)), want, rtol=1e-4)


def test_requests_of_many_clients_get_their_own_results(server: Server) -> None:
    xs = np.random.default_rng(2).standard_normal((40, 1, 3, 8, 8), np.float32)
    want = server.net.compile("onnxruntime", threads=1)
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(server.infer, xs)]
    for x, (status, found) in zip(xs, answers):
        assert status == 200
        np.testing.assert_allclose(found["outputs"][0]["data"], want(x)["prob"][0], rtol=1e-4)


def test_tritonclient_works_unmodified(server: Server) -> None:
    http = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
    client = http.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("small")
    assert client.get_server_metadata()["extensions"] == [
        "binary_tensor_data",
        "model_configuration",
        "statistics",
    ]
    described = client.get_model_metadata("small", "1")
    assert described["inputs"] == [{"name": "data", "datatype": "FP32", "shape": [-1, 3, 8, 8]}]
    assert described["outputs"] == [{"name": "prob", "datatype": "FP32", "shape": [-1, 5]}]
    x = np.random.default_rng(3).standard_normal((2, 3, 8, 8), np.float32)
    want = server.net.compile("numpy", shapes={"data": x.shape})(x)["prob"]
    for binary in (True, False):
        given = http.InferInput("data", list(x.shape), "FP32")
        given.set_data_from_numpy(x, binary_data=binary)
        outputs = [http.InferRequestedOutput("prob", binary_data=binary)]
        found = client.infer("small", [given], model_version="1", outputs=outputs, request_id="r")
        np.testing.assert_allclose(found.as_numpy("prob"), want, rtol=1e-4)
        assert found.get_response()["id"] == "r"
    for algorithm in ("gzip", "deflate"):
        given = http.InferInput("data", list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        found = client.infer("small", [given], request_compression_algorithm=algorithm)
        np.testing.assert_allclose(found.as_numpy("prob"), want, rtol=1e-4)
    assert client.get_model_config("small")["input"] == [
        {"name": "data", "data_type": "TYPE_FP32", "dims": [3, 8, 8]}
    ]
    with pytest.raises(http.InferenceServerException, match="must be FP32, got FP64"):
        wrong = http.InferInput("data", list(x.shape), "FP64")
        wrong.set_data_from_numpy(x.astype(np.float64))
        client.infer("small", [wrong])
    client.close()


def test_tritonclient_gets_the_counts_and_times_of_requests(server: Server) -> None:
    http = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
    client = http.InferenceServerClient(f"127.0.0.1:{server.port}")

    def counted() -> tuple[dict[str, Any], dict[str, int]]:
        (found,) = client.get_inference_statistics("small", "1")["model_stats"]
        return found, {name: one["count"] for name, one in found["inference_stats"].items()}

    before, counts = counted()
    for samples in (1, 3):
        given = http.InferInput("data", [samples, 3, 8, 8], "FP32")
        given.set_data_from_numpy(np.ones((samples, 3, 8, 8), np.float32))
        client.infer("small", [given])
    assert server.get("/v2/models/small/infer", b"{}")[0] == 400
    after, now = counted()
    assert {name: now[name] - counts[name] for name in now if now[name] > counts[name]} == {
        **dict.fromkeys(("success", "queue", "compute_input", "compute_infer", "compute_output"), 2), "fail": 1,
    }  # fmt: skip
    assert after["inference_count"] - before["inference_count"] == 4
    assert after["last_inference"] > before["last_inference"] and after["name"] == "small"
    runs = {one["batch_size"]: one["compute_infer"]["count"] for one in after["batch_stats"]}
    assert sum(size * count for size, count in runs.items()) == after["inference_count"]
    assert sum(runs.values()) == after["execution_count"]
    times = {name: one["ns"] for name, one in after["inference_stats"].items()}
    assert times["success"] == times["queue"] + sum(
        times[f"compute_{part}"] for part in ("input", "infer", "output")
    )
    assert min(times["compute_input"], times["compute_infer"], times["queue"]) > 0
    every = [one["name"] for one in client.get_inference_statistics()["model_stats"]]
    assert every == server.get("/v2/models")[1]["models"]
    client.close()


KSERVE = """
import asyncio, json, sys
import kserve, numpy as np

async def answers(base, x):
    client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
    found = [await client.is_server_live(base), await client.is_server_ready(base)]
    found.append(await client.is_model_ready(base, "small"))
    for binary in (True, False):
        given = kserve.InferInput("data", list(x.shape), "FP32")
        given.set_data_from_numpy(x, binary_data=binary)
        request = kserve.InferRequest(model_name="small", infer_inputs=[given], request_id="r")
        one = await client.infer(base, request, model_name="small")
        found.append([one.model_name, one.id, one.outputs[0].as_numpy().tolist()])
    await client.close()
    return found

print(json.dumps(asyncio.run(answers(sys.argv[1], np.load(sys.argv[2])))))
"""


def test_kserve_client_works_unmodified(server: Server, tmp_path: Path) -> None:
    """The client runs in a process of its own: a process cannot load KServe's and Triton's messages together."""
    if find_spec("kserve") is None:
        pytest.skip("kserve is not installed")
    x = np.random.default_rng(4).standard_normal((2, 3, 8, 8), np.float32)
    want = server.net.compile("numpy", shapes={"data": x.shape})(x)["prob"]
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", KSERVE, f"http://127.0.0.1:{server.port}", str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    live, ready, model_ready, *inferred = json.loads(done.stdout.splitlines()[-1])
    assert live and ready and model_ready and len(inferred) == 2
    for name, request, found in inferred:
        assert (name, request) == ("small", "r")
        np.testing.assert_allclose(found, want, rtol=1e-4)


def test_picture_alone_is_a_request(server: Server) -> None:
    picture = (server.folder / "a.png").read_bytes()
    x, _ = prepare(read_image(server.folder / "a.png"), Recipe((8, 8)))
    want = server.net.compile("numpy")(x[None])["prob"]
    status, found = server.get("/v2/models/small/infer", picture, Content_Type="image/png")
    assert status == 200
    np.testing.assert_allclose(found["outputs"][0]["data"], want[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("path", "data", "headers", "status", "text"),
    [
        ("/v2/models/smal", None, {}, 404, "there is no model 'smal'; did you mean 'small'?"),
        ("/etc/passwd", None, {}, 404, "there is no such path"),
        ("/v2/models/small/../../../etc/passwd", None, {}, 404, "there is no such path"),
        ("/v2/models/small/infer", None, {}, 405, "this path needs POST"),
        ("/v2", b"x", {}, 405, "this path needs GET"),
        ("/v2/models/small/infer", b"{}", {}, 400, "no 'inputs'"),
        ("/v2/models/small/infer", b"{}", {"Inference_Header_Content_Length": "-1"}, 400, "must be a number"),
        ("/v2/models/small/infer", b"{}", {"Content_Encoding": "gzip"}, 400, "the body is not gzip"),
        (
            "/v2/models/small/infer",
            b"{}",
            {"Content_Encoding": "br"},
            400,
            "compressed with gzip or deflate, not br",
        ),
        (
            "/v2/models/small/infer",
            gzip.compress(b"{}", mtime=0)[:-3],
            {"Content_Encoding": "gzip"},
            400,
            "is cut off",
        ),
        (
            "/v2/models/small/infer",
            gzip.compress(bytes(9 << 20), mtime=0),
            {"Content_Encoding": "gzip"},
            400,
            "at most 1048576",
        ),
        ("/v2/models/small/infer", b'{"inputs": [{"name": "\\ud800"}]}', {}, 400, "input '\ud800'"),
        ("/v2/models/small/trace", None, {}, 404, "a model has infer, ready, config, stats and its metadata"),
        ("/v2/models/small/infer", b"no picture", {"Content_Type": "image/png"}, 400, "not an image"),
        ("/v2/models/small/infer", b"%!PS-Adobe", {"Content_Type": "image/eps"}, 400, "not an image"),
        ("/v2/models/small/infer", bytes((1 << 20) + 1), {}, 413, "at most 1048576 bytes"),
    ],
)
def test_wrong_requests_are_refused(
    server: Server, path: str, data: bytes | None, headers: dict[str, str], status: int, text: str
) -> None:
    found = server.get(path, data, **headers)
    assert found[0] == status and text in found[1]["error"]


def png(width: int, height: int) -> bytes:
    file = BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return file.getvalue()


def with_pictures(*pictures: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the body of a request with pictures, and its header."""
    data = b"".join(len(picture).to_bytes(4, "little") + picture for picture in pictures)
    tensor = {"name": "data", "shape": [len(pictures)], "datatype": "BYTES"}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(data)}}]}).encode()
    return head + data, {"Inference_Header_Content_Length": str(len(head))}


def test_pixels_of_a_request_are_limited(server: Server) -> None:
    """The pictures together have more pixels than one may have, and none is decoded."""
    body, header = with_pictures(*[png(8000, 8000)] * 2)
    status, found = server.get("/v2/models/small/infer", body, **header)
    assert status == 400 and "the pictures of a request have at most 89478485 pixels" in found["error"]
    body, header = with_pictures(png(9, 9), png(30, 8))
    status, found = server.get("/v2/models/small/infer", body, **header)
    assert status == 200 and found["outputs"][0]["shape"] == [2, 5]


def test_unfinished_bodies_do_not_stop_the_service(server: Server) -> None:
    head = b"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(100):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            one.sendall(head)
        assert server.infer(np.zeros((1, 3, 8, 8), np.float32))[0] == 200


def test_values_that_json_does_not_have_are_sent_as_binary(server: Server) -> None:
    http = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
    client = http.InferenceServerClient(f"127.0.0.1:{server.port}")
    x = np.full((1, 3, 8, 8), np.nan, np.float32)
    given = http.InferInput("data", list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    outputs = [http.InferRequestedOutput("prob", binary_data=False)]
    assert np.isnan(client.infer("onnx", [given], outputs=outputs).as_numpy("prob")).all()
    client.close()


def test_metrics_are_prometheus_text(server: Server) -> None:
    server.infer(np.zeros((1, 3, 8, 8), np.float32))
    stop_at, found = time.monotonic() + 30, ""
    while "ray_serve_num_http_requests" not in found and time.monotonic() < stop_at:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics}/metrics", timeout=30) as answer:
            found = answer.read().decode()
        time.sleep(0.5)
    lines = [line for line in found.splitlines() if line.startswith("ray_serve_num_http_requests")]
    assert any('application="small"' in line for line in lines)


LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system is not Linux")


def processes(server: Server) -> dict[int, str]:
    """Return the processes of the server with their command lines."""
    parents, lines = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(folder.name)] = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue

    def descends(process: int) -> bool:
        while process not in (0, server.process.pid):
            process = parents.get(process, 0)
        return process != 0

    return {process: line for process, line in lines.items() if descends(process)}


def replicas(server: Server, model: str) -> list[int]:
    """Return the processes of the server that serve a model."""
    return [process for process, line in processes(server).items() if f"ServeReplica:{model}" in line]


def listening(processes: Iterable[int]) -> set[str]:
    """Return the addresses at which processes listen, as hexadecimal digits in the kernel's order."""
    sockets = set()
    for process in processes:
        for link in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(link.readlink().name)
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                found.add(local.partition(":")[0])
    return found


@LINUX
def test_only_the_chosen_address_listens(server: Server) -> None:
    found = listening(processes(server))
    assert "0100007F" in found  # 127.0.0.1
    assert found <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_token_is_private(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = server.folder / ".ray" / "auth_token"
    assert len(token.read_text()) == 64 and token.stat().st_mode & 0o777 == 0o600
    from anylayer.libraries.ray import _need_private_token

    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("theirs")
    (tmp_path / ".ray" / "auth_token").chmod(0o644)
    _need_private_token()
    assert (tmp_path / ".ray" / "auth_token").read_text() == "theirs"
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600


@LINUX
def test_killed_process_is_replaced(server: Server) -> None:
    x = np.random.default_rng(5).standard_normal((1, 3, 8, 8), np.float32)
    (before,) = replicas(server, "onnx")
    os.kill(before, signal.SIGKILL)
    stop_at, status, found = time.monotonic() + 120, 0, None
    while status != 200 and time.monotonic() < stop_at:
        status, found = server.infer(x, "onnx") if replicas(server, "onnx") != [before] else (0, None)
        time.sleep(0.2)
    want = server.net.compile("numpy")(x)["prob"]
    np.testing.assert_allclose(found["outputs"][0]["data"], want[0], rtol=1e-4)
    assert replicas(server, "onnx") != [before]
    assert server.infer(x)[0] == 200


def test_names_are_checked_before_ray_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.libraries import ray

    def start(*args: object, **options: object) -> None:
        raise AssertionError("Ray is started")

    monkeypatch.setattr(ray, "cluster", start)
    (tmp_path / "net.prototxt").write_text(NET.replace('type: "Mine"', 'type: "ReLU"'))
    words = ["serve", f"a b={tmp_path / 'net.prototxt'}", "--random-weights", "--port", str(free_port())]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1 and "the name 'a b' of a model must be unique" in done.stderr


def test_port_in_use_is_refused(server: Server) -> None:
    words = [sys.executable, "-m", "anylayer", "serve", "weighted.onnx", "--port", str(server.port)]
    source = str(Path(anylayer.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(words, cwd=server.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use; give another --port" in done.stderr


@LINUX
def test_requests_in_flight_are_answered_if_a_process_is_killed_and_if_the_server_stops(
    server: Server, servers: list[Server]
) -> None:
    end = server.folder / "end"
    with ThreadPoolExecutor(3) as pool:
        answers = asked(server, pool)
        (process,) = replicas(server, "small")
        os.kill(process, signal.SIGKILL)
        end.touch()
        assert [answer.result()[0] for answer in answers] == [200] * 3
        assert replicas(server, "small") != [process]
        answers = asked(server, pool)
        servers.remove(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stderr is not None
        assert any("stopping, after the requests" in line for line in server.process.stderr)
        end.touch()
        assert server.process.wait(60) == 128 + signal.SIGTERM
        assert [answer.result()[0] for answer in answers] == [200] * 3


def test_messages_say_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.serve import deployment

    message = "Deployment 'Replica' has taken more than 30s to be scheduled.\nUse `ray status` for more details."
    replica, application = SimpleNamespace(message=message), SimpleNamespace(message="")
    application.deployments = {"Replica": replica}
    status = SimpleNamespace(applications={"net": application})
    monkeypatch.setattr(deployment, "_PATIENCE", 0.01)
    monkeypatch.setattr(deployment.serve(), "status", lambda: status)
    told: Queue[str] = Queue()
    with deployment._telling("net", told.put):
        found = told.get(timeout=60)
    assert found.startswith("waiting for 'net' since ")
    assert found.endswith(" seconds: Deployment 'Replica' has taken more than 30s to be scheduled.")
    assert deployment.why_waiting(status, "other") == ""


def test_network_that_never_answers_is_an_error() -> None:
    from anylayer.serve.deployment import _description

    def result(timeout_s: float) -> None:
        raise TimeoutError

    handle = SimpleNamespace(describe=SimpleNamespace(remote=lambda: SimpleNamespace(result=result)))
    with pytest.raises(EngineError, match="'net' runs, but has not answered for 600 seconds"):
        _description(handle, "net")


def test_ray_sends_no_statistics() -> None:
    code = "from ray._common.usage import usage_lib; print(usage_lib.usage_stats_enabled())"
    environment = {name: value for name, value in os.environ.items() if name != "RAY_USAGE_STATS_ENABLED"}
    environment["PYTHONPATH"] = str(Path(anylayer.__file__).parents[1])
    command = [sys.executable, "-c", f"import anylayer.libraries.ray\n{code}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
