"""Ray, without its usage statistics. This is the only file that imports it.

Ray sends statistics of its use unless `RAY_USAGE_STATS_ENABLED` is 0. A value that the user has set is left as it
is. Importing this file raises ImportError where Ray is not installed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from anylayer.errors import InputError

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray as _ray

ray: Any = _ray
_STORE_BYTES = 512 << 20
"""Bytes of shared memory that a cluster of this machine has besides those for the weights."""


def serve() -> Any:
    """Return ray.serve. Raises InputError where its dependencies are not installed."""
    try:
        from ray import serve as found
    except ImportError as error:
        raise _missing(error) from None
    return found


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
    address: str | None = None, *, cpus: int | None = None, weights: int = 0, metrics_port: int | None = None
) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, for the `with` block. One that the program is connected
    to already is used as it is.

    address: of the cluster, "auto" for the one that runs on this machine; None starts one that only this machine
    reaches, with `cpus` cores (all by default) and shared memory for `weights` bytes. metrics_port: where a
    cluster that is started tells its metrics. Raises InputError where there is no cluster at the address.
    """
    if ray.is_initialized():
        yield
        return
    handlers = _handlers()
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    try:
        if address is None:
            ray.init(
                "local",
                num_cpus=cpus,
                object_store_memory=_STORE_BYTES + weights,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _metrics_export_port=metrics_port,
                **quiet,
            )
        else:
            ray.init(address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = "a cluster cannot be started" if address is None else f"there is no cluster at '{address}'"
        token = "" if address is None else ". If it requires a token, set RAY_AUTH_MODE=token"
        raise InputError(f"{where}: {str(error).splitlines()[0]}{token}") from None
    for number, handler in handlers.items():  # Ray's end the process some seconds after the signal
        signal.signal(number, handler)
    try:
        yield
    finally:
        ray.shutdown()


def _handlers() -> dict[int, Any]:
    """Return the handlers of the signals that end the process, where they are functions."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return {number: handler for number in numbers if callable(handler := signal.getsignal(number))}


def cores() -> int:
    """Return the number of cores of the cluster's largest node."""
    return max(int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]) or 1
