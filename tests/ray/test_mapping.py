"""`anylayer.ray.map`: results, batches, failures, runs that are resumed, and processes that die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import InputError
from tests.layer_files import write_layer

ray = pytest.importorskip("ray", reason="ray[data] is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*", "ignore::FutureWarning:ray.*")

NET = """
name: "small" input: "data" input_shape { dim: 1 dim: 6 }
layer { name: "mine" type: "Mine" bottom: "data" top: "mine" }
layer { name: "fc" type: "InnerProduct" bottom: "mine" top: "fc" inner_product_param { num_output: 4
  weight_filler { type: "constant" value: %s } } }
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    from anylayer.libraries.ray import cluster as started

    with started(cpus=2):
        yield


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    return small(tmp_path)


def small(folder: Path, weight: float = 0.5) -> anylayer.Net:
    write_layer(folder, "offsets", "+", 3)
    (folder / "small.prototxt").write_text(NET % weight)
    return anylayer.read(folder / "small.prototxt", layers=[folder / "layers.py"]).fill()


def arrays(folder: Path, count: int) -> list[str]:
    """Write arrays, and return their files."""
    (folder / "in").mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    names = [folder / "in" / f"{i:03}.npy" for i in range(count)]
    for name in names:
        np.save(name, random.standard_normal((1, 6), np.float32))
    return [str(name) for name in names]


def load(path: str) -> dict[str, Any]:
    import numpy

    return {"data": numpy.load(path)}


# Functions of a test module are pickled by their name, and the processes of the cluster cannot import it.
load.__module__ = "__main__"


def results(folder: Path) -> dict[str, np.ndarray]:
    """Return the results of a folder by file. Each file has one result."""
    found: dict[str, np.ndarray] = {}
    for part in folder.glob("*.parquet"):
        for row in parquet.read_table(part).to_pylist():
            assert row["path"] not in found
            found[row["path"]] = np.array(row["fc"], np.float32).reshape(row["fc.shape"])
    return found


def mapped(files: list[str], net: anylayer.Net, folder: Path, **more: Any) -> Any:
    import anylayer.ray

    return anylayer.ray.map(files, net, folder, **{"prepare": load, "engine": "onnxruntime", **more})


def expected(net: anylayer.Net, files: list[str]) -> dict[str, np.ndarray]:
    model = net.compile("numpy")
    return {file: model(np.load(file))["fc"] for file in files}


def need_equal(found: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert sorted(found) == sorted(want)
    for file, array in want.items():
        np.testing.assert_allclose(found[file], array, rtol=1e-5)


def test_data_set_gets_outputs_as_columns(cluster: None, net: anylayer.Net) -> None:
    import anylayer.ray
    from anylayer.libraries.ray import data

    x = np.random.default_rng(1).standard_normal((50, 6)).astype(np.float32)
    rows = data().from_items([{"data": row, "number": i} for i, row in enumerate(x)])
    found = anylayer.ray.map(rows, net, actors=2, engine="onnxruntime").take_all()
    found.sort(key=lambda row: row["number"])
    want = net.compile("numpy", shapes={"data": x.shape})(x)["fc"]
    np.testing.assert_allclose(np.stack([row["fc"] for row in found]), want, rtol=1e-5)


@pytest.mark.parametrize("actors", [None, 2])
def test_processes_leave_a_core_to_the_tasks_that_read(
    cluster: None, net: anylayer.Net, tmp_path: Path, actors: int | None
) -> None:
    import anylayer.ray
    from anylayer.libraries.ray import data

    (tmp_path / "rows").mkdir()
    np.save(tmp_path / "rows" / "0.npy", np.ones((2, 6), np.float32))
    rows = data().read_numpy(str(tmp_path / "rows"))
    found = anylayer.ray.map(rows, net, actors=actors, engine="onnxruntime").take_all()
    assert [row["fc"].shape for row in found] == [(4,), (4,)]


def test_files_get_results_and_bad_ones_are_listed(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    files = arrays(tmp_path, 70)
    bad, empty = files[5], files[40]
    Path(bad).write_bytes(b"no array")
    np.save(empty, np.zeros((0, 6), np.float32))
    missing = str(tmp_path / "in" / "absent.npy")
    found = mapped([*files, missing], net, tmp_path / "out", actors=2)
    good = [file for file in files if file not in (bad, empty)]
    need_equal(results(tmp_path / "out"), expected(net, good))
    assert (found.done, found.skipped, sorted(found.failed)) == (68, 0, sorted([bad, empty, missing]))
    assert "FileNotFoundError" in found.failed[missing]
    assert json.loads((tmp_path / "out" / "_failed.json").read_text()) == found.failed
    assert parquet.read_table(tmp_path / "out").num_rows == 68  # the folder is a data set of Parquet files


def test_first_file_for_which_the_network_does_not_compile_fails_alone(
    cluster: None, net: anylayer.Net, tmp_path: Path
) -> None:
    files = arrays(tmp_path, 6)
    for file in files[:2]:
        np.save(file, np.float32(0))
    found = mapped(files, net, tmp_path / "out", actors=1)
    assert sorted(found.failed) == files[:2]
    need_equal(results(tmp_path / "out"), expected(net, files[2:]))


def test_repeated_run_computes_only_files_without_results(
    cluster: None, net: anylayer.Net, tmp_path: Path
) -> None:
    files = arrays(tmp_path, 40)
    assert mapped(files[:30], net, tmp_path / "out", actors=1).done == 30
    damaged = next((tmp_path / "out").glob("*.parquet"))
    lost = parquet.read_table(damaged).num_rows
    damaged.write_bytes(damaged.read_bytes()[:-20])
    found = mapped(files, net, tmp_path / "out", actors=1)
    assert (found.done, found.skipped) == (10 + lost, 30 - lost)
    need_equal(results(tmp_path / "out"), expected(net, files))


def test_results_of_another_network_are_not_mixed(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    files = arrays(tmp_path, 2)
    mapped(files, net, tmp_path / "out", actors=1)
    with pytest.raises(InputError, match="has results of another network, or of other options"):
        mapped(files, small(tmp_path, 0.25), tmp_path / "out")
    with pytest.raises(InputError, match="has results of another network, or of other options"):
        mapped(files, net, tmp_path / "out", options="another prepare")
    with pytest.raises(InputError, match="holds other files; give a new folder"):
        mapped(files, net, tmp_path / "in")


def test_killed_process_loses_nothing(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    files = arrays(tmp_path, 300)
    mark, killer, log = tmp_path / "killed", files[120], tmp_path / "log"

    def dying(path: str) -> dict[str, Any]:
        with log.open("a") as file:
            file.write(f"{path}\n")
        if path == killer and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"data": np.load(path)}

    found = mapped(files, net, tmp_path / "out", actors=1, prepare=dying)
    assert mark.exists()
    assert (found.done, found.failed) == (300, {})
    need_equal(results(tmp_path / "out"), expected(net, files))
    lines = log.read_text().split()
    twice = sorted(file for file in set(lines) if lines.count(file) > 1)
    assert killer in twice
    assert twice == files[files.index(twice[0]) : files.index(killer) + 1]
    assert len(twice) <= 32


def test_process_killed_after_it_has_written_repeats_nothing(
    cluster: None, net: anylayer.Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new process finds the results of the one that was killed, and its file that failed fails again."""
    from anylayer.ray import mapper

    files, mark = arrays(tmp_path, 8), tmp_path / "killed"
    Path(files[3]).unlink()

    class Dying(mapper.Mapper):
        def files(self, paths: Any) -> dict[str, str]:
            errors = super().files(paths)
            if paths and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return errors

    monkeypatch.setattr("anylayer.ray.mapping.Mapper", Dying)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = mapped(files, net, tmp_path / "out", actors=1)
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert (found.done, list(found.failed)) == (7, [files[3]])
    need_equal(results(tmp_path / "out"), expected(net, [*files[:3], *files[4:]]))


def test_file_whose_processes_die_fails_alone(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    files = arrays(tmp_path, 6)

    def dying(path: str) -> dict[str, Any]:
        if path == files[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"data": np.load(path)}

    found = mapped(files, net, tmp_path / "out", actors=1, prepare=dying)
    assert list(found.failed) == [files[1]]
    assert found.failed[files[1]].startswith(f"{files[1]}: processes that run it die: ")
    need_equal(results(tmp_path / "out"), expected(net, [files[0], *files[2:]]))


def test_results_that_cannot_be_written_end_the_run(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    def removing(path: str) -> dict[str, Any]:
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "out").touch()
        return {"data": np.load(path)}

    with pytest.raises(FileExistsError):
        mapped(arrays(tmp_path, 1), net, tmp_path / "out", actors=1, prepare=removing)


def test_processes_of_an_earlier_run_write_nothing(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    def restarting(path: str) -> dict[str, Any]:
        (tmp_path / "out" / "_anylayer.json").write_text('{"run": "another"}')
        return {"data": np.load(path)}

    with pytest.raises(InputError, match="another run has begun to write to "):
        mapped(arrays(tmp_path, 2), net, tmp_path / "out", actors=1, prepare=restarting)
    assert results(tmp_path / "out") == {}


def test_native_layers_are_refused(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    kernels: Any = {"Mine": None}
    net.kernels = kernels
    with pytest.raises(InputError, match="'Mine' is computed by a native library or an OpenCL kernel"):
        mapped(arrays(tmp_path, 1), net, tmp_path / "out")


def test_threads_beyond_the_cluster_are_refused(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no room for 1 process of 3 cores: its nodes have \[2\] free cores"):
        mapped(arrays(tmp_path, 1), net, tmp_path / "out", threads=3)


def test_cluster_that_does_not_start_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.libraries import ray as library

    attempts = []

    def init(*args: Any, **more: Any) -> None:
        attempts.append(more)
        raise Exception("The current node timed out during startup.\nSecond line")

    monkeypatch.setattr(library.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(library.ray, "init", init)
    with (
        pytest.raises(
            InputError, match=r"^a cluster cannot be started: The current node timed out during startup\.$"
        ),
        library.cluster(),
    ):
        pass
    assert len(attempts) == 2


def test_mode_of_a_cluster_that_has_ended_is_not_that_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.libraries import ray as library

    monkeypatch.setattr(library.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(library.ray, "init", lambda *args, **more: os.environ.update(RAY_AUTH_MODE="token"))
    monkeypatch.setattr(library.ray, "shutdown", lambda: None)
    monkeypatch.setattr(library.ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with library.cluster():
        assert os.environ["RAY_AUTH_MODE"] == "token"
    assert "RAY_AUTH_MODE" not in os.environ


def test_cluster_that_other_machines_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.libraries import ray as library

    ended = []
    monkeypatch.setattr(library.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(library.ray, "init", lambda *args, **more: None)
    monkeypatch.setattr(library.ray, "shutdown", lambda: ended.append(True))
    monkeypatch.setattr(library.ray.util, "get_node_ip_address", lambda: "192.0.2.2")
    with (
        pytest.raises(InputError, match=r"listens at 192\.0\.2\.2, where other machines reach it"),
        library.cluster(),
    ):
        pass
    assert ended


def test_processes_have_the_priority_of_the_program(cluster: None) -> None:
    assert ray.get(ray.remote(lambda: os.nice(0)).remote()) == os.nice(0)


@pytest.mark.parametrize(
    ("processes", "fits"), [([3, 2], True), ([2, 1, 2], True), ([2, 2, 2], False), ([4], False)]
)
def test_each_process_needs_its_cores_on_one_node(processes: list[int], fits: bool) -> None:
    from anylayer.libraries.ray import _fit

    assert _fit(processes, [2, 3]) is fits


def test_no_more_processes_start_than_there_are_blocks(cluster: None, net: anylayer.Net, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert mapped(arrays(tmp_path, 1), net, tmp_path / "out", actors=2).done == 1
    assert not [one for one in found if "concurrent actors" in str(one.message)]
