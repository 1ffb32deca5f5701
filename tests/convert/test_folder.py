"""Generated folders: whole or not at all, and never in place of files that a person edited."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from anylayer.convert.folder import MANIFEST, new_folder
from anylayer.errors import FileError, InputError

FILES = {"main.py": "print(1)\n", "data/weights.bin": [b"\x00\x01", memoryview(b"\x02")]}


def make(folder: Path, files: dict[str, object] = FILES, force: bool = False) -> None:
    with new_folder(folder, files, "test", force):
        pass


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_files_and_manifest_are_written(tmp_path: Path) -> None:
    make(tmp_path / "a" / "project")
    found = content(tmp_path / "a" / "project")
    listed = json.loads(found.pop(MANIFEST))["files"]
    assert found == {"main.py": b"print(1)\n", "data/weights.bin": b"\x00\x01\x02"}
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["project"]


def test_error_inside_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "project", FILES, "test", False) as made:
        assert (made / "main.py").exists()
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_error_inside_keeps_older_folder(tmp_path: Path) -> None:
    make(tmp_path / "project")
    before = content(tmp_path / "project")
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "project", {"b": "2"}, "test", False):
        raise ZeroDivisionError
    assert content(tmp_path / "project") == before and len(list(tmp_path.iterdir())) == 1


def test_files_of_test_runs_are_removed(tmp_path: Path) -> None:
    with new_folder(tmp_path / "project", FILES, "test", False) as made:
        (made / "build" / "deep").mkdir(parents=True)
        (made / "build" / "deep" / "a.o").write_text("")
        (made / "data" / "left").write_text("")
        (made / "link").symlink_to("/")
    assert set(content(tmp_path / "project")) == {*FILES, MANIFEST}
    assert not (tmp_path / "project" / "build").exists()


def test_unchanged_folder_is_replaced(tmp_path: Path) -> None:
    make(tmp_path / "project")
    (tmp_path / "project" / "__pycache__").mkdir()
    (tmp_path / "project" / "__pycache__" / "main.pyc").write_text("")
    make(tmp_path / "project", {"other.py": "2"})
    assert set(content(tmp_path / "project")) == {"other.py", MANIFEST}


def test_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    make(tmp_path / "project")
    assert (tmp_path / "project" / "main.py").exists()


@pytest.mark.parametrize("name, text", [("main.py", "was edited"), ("notes.txt", "was not generated")])
def test_edited_folder_is_replaced_only_by_force(name: str, text: str, tmp_path: Path) -> None:
    make(tmp_path / "project")
    (tmp_path / "project" / name).write_text("mine")
    with pytest.raises(InputError, match=rf"{name} {text}.*force=True"):
        make(tmp_path / "project")
    assert (tmp_path / "project" / name).read_text() == "mine"
    make(tmp_path / "project", force=True)
    assert set(content(tmp_path / "project")) == {*FILES, MANIFEST}


def test_folder_without_manifest_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years")
    for manifest in (None, "{", "[]", '{"files": 3}'):
        if manifest is not None:
            (tmp_path / "home" / MANIFEST).write_text(manifest)
        with pytest.raises(InputError, match="files that no generator wrote; give another folder"):
            make(tmp_path / "home", force=True)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years"


def test_file_and_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, but the output is a folder"):
        make(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link; give the folder itself"):
        make(tmp_path / "link")
    with pytest.raises(FileError, match="is not a folder"):
        make(tmp_path / "file" / "project")


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", ""])
def test_generator_cannot_leave_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a generator names the file"):
        make(tmp_path / "project", {name: "x"})
    assert not list(tmp_path.iterdir())
