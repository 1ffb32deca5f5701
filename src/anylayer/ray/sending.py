"""Send networks to the processes of a cluster with the user's layers, so that they need no files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from anylayer.api import Net
from anylayer.errors import InputError, need
from anylayer.libraries.ray import ray


def sent(net: Net, *more: Any) -> Any:
    """Put a network into the cluster's shared memory, and return the reference to it. With `more`, the reference
    is to a tuple.

    The processes of a node share its weights. The code of the user's layers is sent, too: the files of `layers`
    and the modules in the same folders. Raises InputError for native layers, whose libraries and devices cannot be
    sent.
    """
    native = sorted(net.kernels)
    need(
        not native,
        f"layer type '{native[0] if native else ''}' is computed by a native library or an OpenCL kernel, which "
        "cannot be sent to other processes; give a Python class for it",
        InputError,
    )
    for module in _modules_beside_layers(net):
        ray.cloudpickle.register_pickle_by_value(module)
    return ray.put((net, *more) if more else net)


def _modules_beside_layers(net: Net) -> list[Any]:
    """Return the modules of the user's layers, and the imported modules whose files are in the same folders.

    Installed packages are left out: the processes of a cluster have them.
    """
    modules = {definition.cls.__module__ for definition in net.user_layers.values()} - {"__main__"}
    folders = {folder for name in modules if (folder := _folder_of(name)) and "site-packages" not in folder.parts}
    return [sys.modules[name] for name in [*sys.modules] if name != "__main__" and _folder_of(name) in folders]


def _folder_of(name: str) -> Path | None:
    """Return the folder of an imported module's file, or None where it has none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file).parent if file else None
