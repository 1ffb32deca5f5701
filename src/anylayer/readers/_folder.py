"""Files that belong to a model. They must lie in its folder once symbolic links are resolved."""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, need


def need_in_folder(path: Path, model: Path, what: str, remedy: str = "") -> None:
    """Raise FileError unless an existing file lies in the model's folder once symbolic links are resolved.

    If the model is a link itself, its target's folder is allowed too, because a cache may hold a model and its
    weights as links into one folder. `what` names the file in the message, which ends with `remedy`.
    """
    real = path.resolve()
    folders = (model if model.is_dir() else model.parent).resolve(), model.resolve().parent
    need(
        any(real.is_relative_to(folder) for folder in folders),
        f"{what} is a link that leads out of the model's folder{remedy}",
        FileError,
    )
