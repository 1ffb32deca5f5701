"""Ray, without its usage statistics. This is the only file that imports it.

Ray sends statistics of its use unless `RAY_USAGE_STATS_ENABLED` is 0. A value that the user has set is left as it
is. Importing this file raises ImportError where Ray is not installed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from anylayer.errors import InputError, plural

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

try:
    import ray as _ray
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'ray[serve,data]'", name=error.name) from None

ray: Any = _ray
DIED = (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError)
"""The exceptions of a call whose process has ended."""
TASK_FAILED: Any = ray.exceptions.RayTaskError
"""The exception of a call that raised one, which is its `cause`."""
_STARTED = {
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""Variables for a cluster of this machine, where the user has not set them. It has no other machines. Its
processes have the priority of the program that starts it. With Ray's own niceness of 15, they hardly run while
other programs compute."""
_MODE = "RAY_AUTH_MODE"
"""The variable that says whether calls need a token."""
_ATTEMPTS, _PAUSE = 20, 0.5
"""The largest number of times that free cores are counted until they suffice, and the seconds in between."""
_LOOPBACK = "127.0.0.1"
_STORE_BYTES = 512 << 20
"""Bytes of shared memory that a cluster of this machine has besides those for the weights."""


def serve() -> Any:
    """Return ray.serve. Raises InputError where its dependencies are not installed."""
    try:
        from ray import serve as found
    except ImportError as error:
        raise _missing(error) from None
    return found


def listen_at_own_address() -> None:
    """Let the process of a deployment, in which this is called, listen at the address of its node only. Ray Serve
    has no setting for this: it opens a port for calls from other deployments at all addresses of the machine."""
    from ray.serve._private import replica

    module: Any = replica
    opened = module.add_port_to_grpc_server

    def at_own_address(server: Any, address: str) -> Any:
        host = ray.util.get_node_ip_address()
        return opened(server, address.replace("[::]", f"[{host}]" if ":" in host else host))

    module.add_port_to_grpc_server = at_own_address


def listening() -> tuple[str, int] | None:
    """Return the host and the port of Ray Serve on the cluster, None where it does not run."""
    serve()
    from ray.serve.context import _get_global_client

    client: Any = _get_global_client(raise_if_no_controller_running=False)
    return None if client is None else (client.http_config.host, client.http_config.port)


def data() -> Any:
    """Return ray.data, which reports errors only. Raises InputError where its dependencies are not installed."""
    try:
        from ray import data as found
    except ImportError as error:
        raise _missing(error) from None
    for name in ("ray.data", "ray.data._internal"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return found


def _missing(error: ImportError) -> InputError:
    return InputError(f"{error}. This needs: pip install 'ray[serve,data]'")


@contextlib.contextmanager
def cluster(
    address: str | None = None,
    *,
    cpus: int | None = None,
    least: int = 1,
    weights: int = 0,
    metrics_port: int | None = None,
) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, for the `with` block. One that the program is connected
    to already is used as it is.

    address: of the cluster, "auto" for the one that runs on this machine; None starts one that only this machine
    reaches, with `cpus` cores (all by default, and not fewer than `least`) and shared memory for `weights` bytes.
    metrics_port: the port at which a cluster that is started serves its metrics. Raises InputError where there is
    no cluster at the address.
    """
    if ray.is_initialized():
        yield
        return
    handlers, mode = _handlers(), os.environ.get(_MODE)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    try:
        if address is None:
            for name, value in _STARTED.items():
                os.environ.setdefault(name, value)
            _start(
                num_cpus=cpus or (least if least > (os.cpu_count() or 1) else None),
                object_store_memory=_STORE_BYTES + weights,
                include_dashboard=False,
                _metrics_export_port=metrics_port,
                **quiet,
            )
        else:
            ray.init(address, **quiet)
    except Exception as error:  # Ray raises a bare Exception where its processes start too slowly
        where = "a cluster cannot be started" if address is None else f"there is no cluster at '{address}'"
        token = "" if address is None else ". If it requires a token, set RAY_AUTH_MODE=token"
        raise InputError(f"{where}: {str(error).splitlines()[0]}{token}") from None
    for number, handler in handlers.items():  # Ray's handlers end the process seconds after the signal
        signal.signal(number, handler)
    try:
        if address is not None:
            _need_tokens(address)
        yield
    finally:
        ray.shutdown()
        if mode is None:  # a cluster that is started sets it, and other clusters need not have tokens
            os.environ.pop(_MODE, None)


def _start(**options: Any) -> None:
    """Start a cluster whose ports only this machine reaches. A busy machine needs a second attempt, because Ray's
    limit of 30 seconds cannot be changed.

    Ray replaces 127.0.0.1 by an address that others reach, except where it has no clusters of several machines.
    """
    from ray._private import ray_constants

    _need_private_token()
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        try:
            ray.init("local", _node_ip_address=_LOOPBACK, **options)
        except Exception as error:
            if "timed out" not in str(error):
                raise
            ray.shutdown()
            ray.init("local", _node_ip_address=_LOOPBACK, **options)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
    address = ray.util.get_node_ip_address()
    if address != _LOOPBACK:
        ray.shutdown()
        raise InputError(f"Ray {ray.__version__} listens at {address}, where other machines reach it")


def _need_private_token() -> None:
    """Create the token of Ray's calls, or make its file private: Ray lets every user of the machine read it."""
    if os.environ.get(_MODE, "token") != "token" or "RAY_AUTH_TOKEN" in os.environ:
        return
    path = Path.home() / ".ray" / "auth_token"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    except FileExistsError:
        path.chmod(0o600)


def _need_tokens(address: str) -> None:
    """Raise InputError if this program has tokens for its calls and the cluster has none. Ray connects to it
    nevertheless, but loses the answers of Ray Serve, and waits for ever."""
    if os.getenv(_MODE) == "token" != ray.get(ray.remote(num_cpus=0)(os.getenv).remote(_MODE)):
        raise InputError(f"the cluster at '{address}' has no tokens, but {_MODE} is 'token'; set {_MODE}=disabled")


def _handlers() -> dict[int, Any]:
    """Return the handlers of the signals that end the process, where they are functions."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return {number: handler for number in numbers if callable(handler := signal.getsignal(number))}


def cores() -> int:
    """Return the number of cores of the cluster."""
    return int(ray.cluster_resources().get("CPU", 1))


def free_cores() -> list[int]:
    """Return for each node of the cluster how many cores no process has reserved."""
    from ray._private import state

    module: Any = state
    return [int(resources.get("CPU", 0)) for resources in module.available_resources_per_node().values()] or [0]


def need_cores(processes: Sequence[int], remedy: str) -> None:
    """Raise InputError if there are too few free cores for the processes: Ray would wait for ever."""
    for _ in range(_ATTEMPTS):  # Ray reports cores that were released with a delay
        free = free_cores()
        if _fit(processes, free):
            return
        time.sleep(_PAUSE)
    needs = f"{plural(len(processes), 'process')} of {plural(max(processes), 'core')}"
    raise InputError(f"the cluster has no room for {needs}: its nodes have {free} free cores; {remedy}")


def _fit(processes: Sequence[int], free: Sequence[int]) -> bool:
    left = list(free)
    for size in sorted(processes, reverse=True):
        node = left.index(max(left))
        left[node] -= size
        if left[node] < 0:
            return False
    return True
