"""Layers files: Python files that define layers. A file is executed once, and again after it was changed."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from anylayer.errors import FileError, InputError, call_contained, kind_and_text, nearest, need, wording
from anylayer.layer.functions import as_class
from anylayer.layer.registry import Definition, collecting, origin_of
from anylayer.layer.scripts import execute_definitions, imports, reads_command_line, registrations


def load_layers(sources: Iterable[Any]) -> dict[str, Definition]:
    """Return the definitions that layers files and classes give, by layer type.

    A source is the path of a Python file, "Type=file.py:Class" for one class of a file, or a (type, class) pair.
    The last two choose the class of a type; a later choice replaces an earlier one. A mapping of types to classes
    stands for its pairs. Files are *executed*; this is the only place that executes a user's file.

    Raises FileError, and InputError where two files define one type and no class is chosen for it.
    """
    files: dict[str, list[Definition]] = {}
    named: dict[str, Definition] = {}
    for source in sources.items() if isinstance(sources, Mapping) else sources:
        if isinstance(source, (str, Path)):
            loaded, chosen = _of_text(str(source))
            named.update({d.type: d for d in loaded} if chosen else {})
            for d in () if chosen else loaded:
                files.setdefault(d.type, []).append(d)
            continue
        need(
            isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], str) and callable(source[1]),
            f"layers must be files, 'Type=file.py:Class' or (type, class) pairs, got {source!r}",
            InputError,
        )
        type_, cls = source[0], as_class(source[1])
        named[type_] = Definition(type_, cls, origin_of(cls))
    return {**{type_: _only(all_) for type_, all_ in files.items() if type_ not in named}, **named}


def _only(definitions: Sequence[Definition]) -> Definition:
    """Return the last definition of a type. Raises InputError where another file defines the type, too."""
    last = definitions[-1]
    other = next((d for d in definitions if Path(d.origin).resolve() != Path(last.origin).resolve()), last)
    which = f"{last.type}={last.origin}:{getattr(last.cls, '__name__', 'Class')}"
    need(
        other is last,
        f"two layers files define type '{last.type}': {other.origin} and {last.origin}. Choose one: "
        + wording(f"layers=[..., {which!r}]", f"-l {which}"),
        InputError,
    )
    return last


def _of_text(text: str) -> tuple[list[Definition], bool]:
    """Return the definitions of a file and False, or the one that "Type=file.py:Class" chooses and True."""
    type_, _, rest = text.partition("=")
    if not rest or Path(text).exists():
        loaded = _load(Path(text))
        name = next(iter(_classes(loaded.module)), "Class")
        need(
            loaded.definitions,
            f'{text} registers no layer. Put @anylayer.layer("Type") on a class, or give it as Type={text}:{name}',
            InputError,
        )
        return loaded.definitions, False
    path, _, name = rest.rpartition(":")
    need(path, f"'{text}' names no class. Write {type_}={rest}:Class", InputError)
    module = _load(Path(path)).module
    class_names = _classes(module)
    hint = nearest(name, class_names) or (f"; it has: {', '.join(class_names)}" if class_names else "")
    need(hasattr(module, name), f"{path} has no class '{name}'{hint}", InputError)
    return [Definition(type_, as_class(getattr(module, name)), path)], True


def _classes(module: ModuleType) -> list[str]:
    """Return the names of the classes that a file defines itself and that have a forward."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and hasattr(value, "forward") and value.__module__ == module.__name__
    ]


@dataclass(slots=True)
class _Loaded:
    """An executed file, and what it registered. `digests`: the file and its modules -> SHA-256."""

    module: ModuleType
    definitions: list[Definition]
    digests: dict[Path, str]


_loaded: dict[Path, _Loaded] = {}
_lock = threading.RLock()
"""Held while a file is executed, because sys.path, sys.argv and the module cv2 are changed for it."""


def _load(path: Path) -> _Loaded:
    if not path.is_file():
        raise FileError("there is no such layers file", str(path))
    place = path.resolve()
    with _lock:
        loaded = _loaded.get(place)
        if loaded is None or any(_digest(file) != digest for file, digest in loaded.digests.items()):
            loaded = _loaded[place] = _execute(path, place)
        return loaded


def _head(path: Path) -> bytes:
    with path.open("rb") as handle:
        return handle.read(4096)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _execute(path: Path, place: Path) -> _Loaded:
    """Execute a layers file; only the definitions if it parses the command line or cannot run here."""
    name = f"anylayer_user_{path.stem}_{abs(hash(place)):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        remedy = "; a CustomLayersMapping.xml is not needed" if b"<CustomKernelsMapping" in _head(path) else ""
        if path.suffix in (".cpp", ".cc", ".cxx", ".c"):
            remedy = ". Layers in C++ are compiled first: anylayer build layers.cpp -o liblayers.so"
        raise FileError(f"a layers file must be a Python file (.py){remedy}", str(path))
    try:
        tree = ast.parse(path.read_bytes(), str(path)) if path.suffix == ".py" else None
    except (SyntaxError, ValueError) as error:
        raise FileError(": ".join(kind_and_text(error)), f"{path}{_line_in(error, '')}") from error
    if tree is not None and reads_command_line(tree):
        return _run(path, place, spec, tree, whole=False)
    try:
        return _run(path, place, spec, tree, whole=True)
    except FileError as error:
        if tree is None or not registrations(tree):
            raise
        try:
            return _run(path, place, spec, tree, whole=False)
        except FileError:
            raise error from None


def _run(path: Path, place: Path, spec: Any, tree: ast.Module | None, *, whole: bool) -> _Loaded:
    """Execute a file (all of it, or its definitions only) and collect the layers that it registers."""
    module = importlib.util.module_from_spec(spec)
    definitions: list[Definition] = []
    used: dict[Path, str] = {place: _digest(place)}

    def execute() -> None:
        if tree is None:
            spec.loader.exec_module(module)
        elif whole:
            exec(compile(tree, spec.origin, "exec", dont_inherit=True), vars(module))
        else:
            execute_definitions(tree, spec.origin, vars(module))

    sys.modules[spec.name] = module
    try:
        with (
            collecting(definitions),
            _neighbours(place.parent, used),
            _collect_opencv(tree, place.parent, definitions),
            _own_argv(path),
        ):
            call_contained(execute)
    except Exception as error:
        del sys.modules[spec.name]
        kind, text = kind_and_text(error)
        what = f"{kind}: {text}"
        if kind == "SystemExit":
            what = "ends the program when it is executed. Put the classes into a file that only defines them"
        raise FileError(what, f"{path}{_line_in(error, spec.origin)}") from error
    for type_, name in registrations(tree) if tree is not None and not definitions else ():
        cls = vars(module).get(name)
        if callable(cls) and all(d.type != type_ for d in definitions):
            definitions.append(Definition(type_, cls, origin_of(cls)))
    return _Loaded(module, definitions, used)


@contextmanager
def _own_argv(path: Path) -> Iterator[None]:
    """Set sys.argv to the file's name alone: the arguments of this program are not meant for the file."""
    before = sys.argv
    sys.argv = [str(path)]
    try:
        yield
    finally:
        sys.argv = before


def _collect_opencv(tree: ast.Module | None, folder: Path, definitions: list[Definition]) -> Any:
    """Collect the layers that the file registers with OpenCV, if it or a module in its folder imports cv2."""
    if tree is None or "cv2" not in _imports_of(tree, folder, set()):
        return nullcontext()

    def register(type_: str, cls: Any) -> None:
        if not callable(cls):
            raise TypeError("class must be callable")
        twice = next((d for d in definitions if d.type == type_), None)
        need(twice is None or twice.cls is cls, f"layer type '{type_}' is registered twice", InputError)
        if twice is None:
            definitions.append(Definition(type_, cls, origin_of(cls)))

    def unregister(type_: str) -> None:
        definitions[:] = [d for d in definitions if d.type != type_]

    from anylayer.layer.opencv_module import registering

    return registering(register, unregister)


def _imports_of(tree: ast.Module, folder: Path, seen: set[Path]) -> set[str]:
    """Return the modules that a file imports, directly or through modules in its folder."""
    names = imports(tree)
    for name in sorted(names):
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file not in seen and file.is_file():
                seen.add(file)
                try:
                    names |= _imports_of(ast.parse(file.read_bytes()), folder, seen)
                except (OSError, SyntaxError, ValueError):
                    continue
    return names


@contextmanager
def _neighbours(folder: Path, used: dict[Path, str]) -> Iterator[None]:
    """Let a layers file import modules from its folder.

    Afterwards these modules are removed from sys.modules, so that each layers file has its own. Their files and
    digests are added to `used`.
    """
    before, writes = set(sys.modules), sys.dont_write_bytecode
    sys.path.append(str(folder))  # at the end, so that it cannot hide another module
    sys.dont_write_bytecode = True  # Python would use it after a change of the same size in the same second
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        sys.path.remove(str(folder))
        beside = {n for n in set(sys.modules) - before if "." not in n and _lies_in(sys.modules[n], folder)}
        for name in set(sys.modules) - before:
            if name.split(".")[0] in beside:
                file = getattr(sys.modules.pop(name), "__file__", None)
                if file:
                    used[Path(file)] = _digest(Path(file))


def _lies_in(module: Any, folder: Path) -> bool:
    file = Path(getattr(module, "__file__", None) or "/")
    return folder in (file.parent, file.parent.parent if file.stem == "__init__" else file.parent)


def _line_in(error: BaseException, file: str) -> str:
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f":{line}" if line else ""
