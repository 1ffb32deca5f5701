"""`anylayer serve --ray` on a cluster where Ray Serve runs already, with an application of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import anylayer
from tests.serve.test_serving import Server, asked, free_port, replicas, running, stop, write_waiting

pytest.importorskip("ray.serve", reason="ray[serve] is not installed", exc_type=ImportError)

CLUSTER = """
import sys, ray
from ray import serve

def init():
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1",
             object_store_memory=512 << 20)

try:
    init()
except Exception:  # it has not started within Ray's limit of 30 seconds
    ray.shutdown()
    init()
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Other:
    async def __call__(self, request):
        return "other"

serve.run(Other.bind(), name="other", route_prefix="/")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
"""It runs until its standard input is closed. That happens even if the process of the tests is killed."""
PATIENT = {
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
}
"""Other tests run beside this cluster. With Ray's own priority and limits, it hardly runs, or does not start."""

LAYERS = ["-l", "layers.py", "-l", "slow.py"]


@dataclass
class Cluster:
    """A cluster with Ray Serve. `port` is the one at which it listens."""

    address: str
    port: int
    process: subprocess.Popen[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("existing")
    write_waiting(folder)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(Path(anylayer.__file__).parents[1])}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", **PATIENT}
    command = [sys.executable, "-c", CLUSTER, str(port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    log = tmp_path_factory.mktemp("cluster") / "stderr"
    with log.open("w") as file, subprocess.Popen(command, env=environment, stderr=file, **pipes) as one:
        assert one.stdout is not None
        address = one.stdout.readline().strip()
        assert address, log.read_text()
        yield Cluster(address, port, one)
        one.communicate()


def answer_of_other(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system is not Linux")
def test_requests_are_computed_again_on_a_cluster_that_serves_already(
    folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    words = ["serve", "small.prototxt", *LAYERS, "--random-weights", "--max-size", "1"]
    one = running(folder, [*words, "--ray", cluster.address])
    net = anylayer.read(folder / "small.prototxt", layers=[folder / "layers.py", folder / "slow.py"]).fill()
    server = Server(cluster.port, 0, one, folder, net)
    workers = Server(cluster.port, 0, cluster.process, folder, net)
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8), np.float32)
    status, found = server.infer(x)
    assert status == 200 and found["outputs"][0]["shape"] == [2, 5]
    assert server.get("/v2/models/small")[1]["name"] == "small"
    assert server.get("/v2/health/ready") == (200, {"ready": True})
    assert server.get("/v2/models/small/infer", b"{}")[0] == 400
    assert server.get("/v2/models/small/infer", bytes((1 << 20) + 1))[0] == 413
    stats = [server.get(path)[1]["model_stats"][0] for path in ("/v2/models/small/stats", "/v2/models/stats")]
    assert [one["inference_stats"]["success"]["count"] for one in stats] == [1, 1]
    with ThreadPoolExecutor(3) as pool:
        answers = asked(server, pool)
        before = replicas(workers, "small:Replica")
        assert len(before) == 1
        os.kill(before[0], signal.SIGKILL)
        (folder / "end").touch()
        assert [answer.result()[0] for answer in answers] == [200] * 3
    assert replicas(workers, "small:Replica") != before
    again = ["-m", "anylayer", "serve", "small.prototxt", *LAYERS, "--ray", cluster.address]
    environment = {**os.environ, "PYTHONPATH": str(Path(anylayer.__file__).parents[1])}
    done = subprocess.run([sys.executable, *again], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "runs on this cluster already" in done.stderr
    assert server.infer(x)[0] == 200
    assert stop(one) == 128 + signal.SIGTERM
    assert answer_of_other(cluster.port) == "other"


@pytest.mark.parametrize(
    ("words", "mode", "text"),
    [
        (["other=small.prototxt"], "disabled", "an application 'other' runs on this cluster already"),
        (
            ["small.prototxt"],
            "token",
            "the cluster at 'ADDRESS' has no tokens, but RAY_AUTH_MODE is 'token'; set RAY_AUTH_MODE=disabled",
        ),
        (
            ["small.prototxt", "--replicas", "3"],
            "disabled",
            "the cluster has no room for 3 processes of 1 core: its nodes have [2] free cores; "
            "give a smaller --threads or --replicas",
        ),
    ],
)
def test_network_that_the_cluster_cannot_run_is_refused(
    folder: Path, cluster: Cluster, words: list[str], mode: str, text: str
) -> None:
    command = [sys.executable, "-m", "anylayer", "serve", *words, *LAYERS, "--ray", cluster.address]
    environment = {**os.environ, "PYTHONPATH": str(Path(anylayer.__file__).parents[1])}
    environment["RAY_AUTH_MODE"] = mode
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and text.replace("ADDRESS", cluster.address) in done.stderr
    assert answer_of_other(cluster.port) == "other"
