"""The cache of built libraries: what it keeps, and what it refuses to load."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anylayer.errors import FileError
from anylayer.kernels import cache
from anylayer.kernels.compiler import compiler
from tests.loops.harness import needs_compiler

pytestmark = needs_compiler

SOURCE = 'extern "C" __attribute__((visibility("default"))) int number() {{ return {}; }}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the cache folder of a user without one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "anylayer" / "cpp"
    cache._loaded.clear()


def number(value: int) -> int:
    """Return the number that a library returns, as another process would load it."""
    cache._loaded.clear()
    found: int = cache.library(SOURCE.format(value), compiler()).number()
    return found


def test_library_is_built_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert number(11) == 11
    (kept,) = home.iterdir()
    assert home.stat().st_mode & 0o777 == 0o700 and kept.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(cache.Build, "run", lambda self: pytest.fail("built again"))
    assert number(11) == 11


def test_other_source_or_flags_give_another_library(home: Path) -> None:
    assert (number(21), number(22)) == (21, 22)
    text = 'extern "C" __attribute__((visibility("default"))) int number() { return N; }\n'
    assert [cache.library(text, compiler(), [f"-DN={n}"]).number() for n in (23, 24)] == [23, 24]
    assert len(list(home.iterdir())) == 4


def test_file_with_other_bytes_is_built_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number(31)
    (kept,) = home.iterdir()
    whole = kept.read_bytes()
    kept.unlink()  # the loaded file itself must not change
    kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    kept.chmod(0o700)
    loaded: list[str] = []
    monkeypatch.setattr(cache.ctypes, "CDLL", lambda path, own=ctypes.CDLL: loaded.append(path) or own(path))
    assert number(31) == 31 and kept.read_bytes() == whole and len(loaded) == 1


@pytest.mark.parametrize("how", ["writable", "link"])
def test_file_that_others_could_have_written_is_not_loaded(how: str, home: Path, tmp_path: Path) -> None:
    number(41)
    (kept,) = home.iterdir()
    if how == "writable":
        kept.chmod(0o722)
    else:
        kept.rename(tmp_path / "elsewhere.so")
        kept.symlink_to(tmp_path / "elsewhere.so")
    assert number(41) == 41
    assert not kept.is_symlink() and not kept.stat().st_mode & 0o022


def test_folder_open_to_others_is_not_used(home: Path) -> None:
    home.mkdir(parents=True)
    home.chmod(0o777)
    assert cache.cache_folder("cpp") is None and number(51) == 51 and not list(home.iterdir())


def test_folder_of_another_user_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True, mode=0o700)
    other = os.geteuid() + 1
    monkeypatch.setattr("anylayer.libraries.machine.os.geteuid", lambda: other)
    assert cache.cache_folder("cpp") is None and number(61) == 61 and not list(home.iterdir())


def test_link_to_a_folder_is_not_used(home: Path, tmp_path: Path) -> None:
    home.parent.mkdir()
    (tmp_path / "target").mkdir(mode=0o700)
    home.symlink_to(tmp_path / "target")
    assert cache.cache_folder("cpp") is None and number(71) == 71 and not list((tmp_path / "target").iterdir())


def test_oldest_libraries_are_deleted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_KEPT", 1)
    number(81)
    (first,) = home.iterdir()
    os.utime(first, (1, 1))
    number(82)
    assert not first.exists() and len(list(home.iterdir())) == 1


def test_source_that_does_not_compile_is_an_error(home: Path) -> None:
    with pytest.raises(FileError, match=r"does not compile:[^$]*no_such_name"):
        cache.library("int f() { return no_such_name; }", compiler())
    assert not list(home.iterdir())
