"""Folders of generated files: they appear whole or not at all, and never replace files that a person edited."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from anylayer.errors import FileError, InputError, need, need_name, some, wording, writing

MANIFEST = "anylayer.json"
"""The file that lists the generated files of a folder with their SHA-256."""
_CACHES = frozenset(("__pycache__", ".pytest_cache"))
"""Folders that are created when the files are run. They are treated as generated."""

Contents = str | Sequence[bytes | memoryview]
"""A text, or the pieces of a binary file."""


def need_replaceable(folder: Path, force: bool) -> None:
    """Raise InputError unless `folder` can be written: it does not exist, is empty, or holds only unchanged
    generated files. With `force`, changed and added files are replaced, too.
    """
    need(not folder.is_symlink(), f"{folder} is a link; give the folder itself", InputError)
    need(folder.is_dir() or not folder.exists(), f"{folder} is a file, but the output is a folder", InputError)
    if not folder.exists() or not any(folder.iterdir()):
        return
    digests = _manifest(folder)
    changed = [name for name, digest in digests.items() if _digest_of(folder / name) not in ("", digest)]
    added = [name for name in _files(folder) if name not in digests and name != MANIFEST]
    remedy = f"give another folder, or {wording('force=True', '--force')} to lose this"
    need(
        force or not changed, f"{folder}: {some(changed)} was edited since it was generated; {remedy}", InputError
    )
    need(force or not added, f"{folder}: {some(added)} was not generated; {remedy}", InputError)


def _manifest(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each generated file. Raises InputError for a folder that no generator wrote."""
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
        digests = {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{folder} holds files that no generator wrote; give another folder") from None
    return digests


def _files(folder: Path) -> Iterator[str]:
    """Yield the files and links below a folder, as paths relative to it."""
    for path in sorted(folder.iterdir()):
        if path.name in _CACHES and not path.is_symlink():
            continue
        if path.is_dir() and not path.is_symlink():
            yield from (f"{path.name}/{name}" for name in _files(path))
        else:
            yield path.name


def _digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; "" where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_beside(path: Path) -> Path:
    """Make a folder beside `path` for files that replace `path` later. Raise FileError where it cannot be made."""
    above = next((p for p in path.parents if p.exists()), path.parent)
    if above.exists() and not above.is_dir():
        raise FileError(f"cannot be written: {above} is not a folder", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f".{path.name[:32]}.", dir=path.parent))


@contextmanager
def new_folder(folder: Path, files: Mapping[str, Contents], what: str, force: bool) -> Iterator[Path]:
    """Write files into a temporary folder and yield it; when the `with` block ends, it becomes `folder`.

    what: the generator, for the manifest. Files that the block adds are removed. If the block raises an exception,
    nothing is left, and an older `folder` stays as it was. Raises InputError where `folder` holds something else
    (see `need_replaceable`), and FileError where it cannot be written.
    """
    need_name(folder, utf8=True)
    need_replaceable(folder, force)
    with writing(str(folder)):
        outer = folder_beside(folder)
        try:
            project = outer / (folder.name or "project")
            project.mkdir()
            for name, contents in files.items():
                write_contents(project, name, contents)
            digests = {name: _digest_of(project / name) for name in files}
            write_contents(project, MANIFEST, json.dumps({"generator": what, "files": digests}, indent=1) + "\n")
            yield project
            _remove_others(project, {*files, MANIFEST})
            need_replaceable(folder, force)
            if folder.exists():
                folder.replace(outer / "old")
            try:
                project.replace(folder)
            except OSError:
                if (outer / "old").exists():
                    (outer / "old").replace(folder)
                raise
        finally:
            shutil.rmtree(outer, ignore_errors=True)


def write_contents(folder: Path, name: str, contents: Contents) -> None:
    """Write a generated file, whose name may have folders, below a folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"a generator names the file {name!r}")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        for piece in [contents.encode()] if isinstance(contents, str) else contents:
            file.write(piece)


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove all files and folders that are not in `names`."""
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for path in sorted(folder.rglob("*"), reverse=True):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and not path.is_symlink():
            if name not in folders:
                shutil.rmtree(path)
        elif name not in names:
            path.unlink()
