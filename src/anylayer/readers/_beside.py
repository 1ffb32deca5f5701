"""Files that belong to a model: they must lie in its folder, also where the model or they are links."""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError, need


def need_within(path: Path, model: Path, what: str, remedy: str = "") -> None:
    """Refuse an existing file that the model's folder does not contain once links are resolved.

    Where the model is a link itself, the folder of its target counts too: a cache may hold a model and its weights
    as links into one folder. Raises FileError, which calls the file `what`.
    """
    real = path.resolve()
    folders = (model if model.is_dir() else model.parent).resolve(), model.resolve().parent
    need(
        any(real.is_relative_to(folder) for folder in folders),
        f"{what} is a link that leads out of the model's folder{remedy}",
        FileError,
    )
