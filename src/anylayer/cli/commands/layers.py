"""List the built-in layer types, or one type's fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import Command, echo, json_option, make_command, show
from anylayer.cli.files import to_json
from anylayer.errors import InputError, nearest, need_one_of, plural
from anylayer.folders import modules
from anylayer.inspect.tables import Column
from anylayer.kernels.abi import VERSION
from anylayer.kernels.files import is_configuration, is_library
from anylayer.kernels.library import load_library
from anylayer.kernels.opencl.configuration import read_configuration
from anylayer.layer import Registry
from anylayer.layer.fields import MISSING

if TYPE_CHECKING:
    from anylayer.kernels.library import Library
    from anylayer.kernels.opencl.configuration import CustomLayer
    from anylayer.layer import Definition, Field, Registry


_TYPES = (Column("type"), Column("dialects", 14, "wrap"), Column("what it does", 30, "wrap", worth=40))
_NATIVE = (Column("type"), Column("what it does", 30, "wrap", worth=40))
_KERNELS = (Column("type"), Column("kernel"), Column("sources", 12, "wrap"), Column("params", 12, "wrap"))
_FIELDS = (
    Column("field"),
    Column("number", right=True),
    Column("type", 12, "wrap"),
    Column("default", 8, "wrap"),
    Column("meaning", 18, "wrap", worth=20),
)


def _complete_types(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    """Return the layer types that begin with `start`, in any case."""
    registry = Registry.of(context.params.get("fmt") or "caffe")
    return [name for name in registry.types() if name.lower().startswith(start.lower())]


@make_command("anylayer layers Interp", Command)
@click.argument("types", metavar="[TYPE | LIBRARY.so | KERNELS.xml]...", nargs=-1, shell_complete=_complete_types)
@click.option(
    "--format", "fmt", default="caffe", metavar="NAME", help="The format of the layers: keras, onnx, ... [caffe]."
)
@json_option
def command(types: tuple[str, ...], fmt: str, as_json: bool, quiet: bool) -> None:
    """List the built-in layer types; for each TYPE given, its fields with their types, defaults and meaning.

    For a library of native layers (anylayer build), list the layer types that it holds. The library is loaded.
    For a configuration of OpenCL kernels (.xml), list its layer types.
    """
    libraries = [t for t in types if is_library(t)]
    configurations = [t for t in types if is_configuration(t)]
    if libraries or configurations:
        _show_files(libraries, configurations, as_json)
        types = tuple(t for t in types if t not in libraries and t not in configurations)
        if not types:
            return
    formats = modules("layers")
    need_one_of(fmt, formats, f"there are no layers of format '{fmt}'", "formats")
    registry = Registry.of(fmt)
    definitions = _find(registry, types) if types else registry.definitions()
    if as_json:
        echo(to_json([_json_data(d) for d in definitions]))
    elif types:
        for definition in definitions:
            _show_one(definition)
    else:
        show(_TYPES, [(d.type, ", ".join(d.dialects), _first_sentence(d)) for d in definitions])
        if not quiet:
            number = plural(len({d.type for d in definitions}), "layer type")
            chosen = "" if fmt == "caffe" else f" --format {fmt}"
            echo(f"{number}; anylayer layers TYPE{chosen} shows its fields")


def _show_files(libraries: list[str], configurations: list[str], as_json: bool) -> None:
    """Print the layers in libraries of native layers and in configurations of OpenCL kernels."""
    loaded = [load_library(path) for path in libraries]
    read = {path: list(read_configuration(Path(path)).values()) for path in configurations}
    if as_json:
        kernels = [{"configuration": path, "layers": [*map(_kernel_data, types)]} for path, types in read.items()]
        echo(to_json([*map(_library_data, loaded), *kernels]))
        return
    for library in loaded:
        about = ", ".join(
            filter(None, [f"version {library.version}" if library.version else "", library.description])
        )
        echo(f"{library.path}: {about or 'no version is stated'} (interface {VERSION})")
        show(_NATIVE, _descriptions(library))
    for path, types in read.items():
        echo(f"{path}: OpenCL kernels")
        show(_KERNELS, [*map(_kernel_row, types)])


def _descriptions(library: Library) -> list[tuple[str, str]]:
    """Return the layer types of a library with their descriptions."""
    return [(name, (t.description or b"").decode("utf-8", "replace")) for name, t in sorted(library.types.items())]


def _library_data(library: Library) -> dict[str, Any]:
    return {
        "library": library.path,
        "interface": VERSION,
        "version": library.version,
        "description": library.description,
        "layers": [{"type": name, "description": text} for name, text in _descriptions(library)],
    }


def _kernel_data(layer: CustomLayer) -> dict[str, Any]:
    defines = [{"name": d.name, "param": d.param, "type": d.type, "default": d.value} for d in layer.defines]
    sources = [source.name for source in layer.sources]
    return {"type": layer.type, "entry": layer.entry, "sources": sources, "defines": defines}


def _kernel_row(layer: CustomLayer) -> tuple[str, ...]:
    params = [f"{d.param}={d.value}" if d.value else d.param for d in layer.defines if d.param]
    return layer.type, layer.entry, ", ".join(s.name for s in layer.sources), ", ".join(params)


def _find(registry: Registry, types: tuple[str, ...]) -> list[Definition]:
    names = registry.types()
    by_lower = {name.lower(): name for name in names}
    definitions: list[Definition] = []
    for type_ in types:
        name = type_ if type_ in names else by_lower.get(type_.lower(), "")
        if not name:
            others = [fmt for fmt in modules("layers") if type_ in Registry.of(fmt).types()]
            raise InputError(
                f"there is no built-in layer type '{type_}'{nearest(type_, names)}"
                + (f"; formats that have it: {', '.join(others)} (--format {others[0]})" if others else "")
            )
        definitions.extend(registry.find(name))
    return definitions


def _first_sentence(definition: Definition) -> str:
    """Return the first sentence of a layer's docstring, without the shapes or the paper at its end."""
    paragraph = _doc(definition).split("\n\n")[0].replace("\n", " ")
    return re.split(r"\s\(\w[^)]*\d{4}\.\d+\)|(?<!\bal)\.(?:\s+(?=[A-Z])|$)|:\s\(N", paragraph)[0]


def _doc(definition: Definition) -> str:
    return inspect.getdoc(definition.cls) or ""


def _show_one(definition: Definition) -> None:
    """Print a layer type's dialects, docstring and fields."""
    cls: Any = definition.cls
    echo(definition.type + (f" ({', '.join(definition.dialects)})" if definition.dialects else ""))
    echo()
    echo("\n".join(f"  {line}".rstrip() for line in _doc(definition).splitlines()))
    echo()
    if not cls.fields:
        echo("  no fields\n")
        return
    echo(f"{cls.message}\n" if cls.message else "", nl=False)
    show(_FIELDS, list(_rows(cls, "")))
    echo()


def _rows(message: Any, indent: str) -> Iterator[tuple[str, ...]]:
    for name, field in message.fields.items():
        yield f"{indent}{name}", str(field.number or ""), _kind(field), _default(field), field.doc
        if isinstance(field.kind, type) and len(indent) < 6:
            yield from _rows(field.kind, indent + "  ")


def _kind(field: Field) -> str:
    kind = field.kind.__name__ if isinstance(field.kind, type) else str(field.kind)
    return f"repeated {kind}" if field.repeated else kind


def _default(field: Field) -> str:
    if isinstance(field.kind, type) or (field.repeated and field.default is MISSING):
        return ""
    text = "required" if field.default is MISSING else str(field.default)
    return text + "".join(f"; {dialect}: {value}" for dialect, value in field.dialects.items())


def _json_data(definition: Definition) -> dict[str, Any]:
    cls: Any = definition.cls
    return {
        "type": definition.type,
        "dialects": list(definition.dialects),
        "doc": _doc(definition),
        "role": cls.role,
        "message": cls.message,
        "numbers": dict(cls.numbers),
        "fields": _json_fields(cls, 0),
    }


def _json_fields(message: Any, depth: int) -> list[dict[str, Any]]:
    rows = []
    for name, field in message.fields.items():
        row = {"name": name, "number": field.number, "type": _kind(field), "doc": field.doc}
        row["required"] = field.default is MISSING and not field.repeated and not isinstance(field.kind, type)
        row["default"] = None if field.default is MISSING else field.default
        if field.dialects:
            row["defaults"] = dict(field.dialects)
        if isinstance(field.kind, type) and depth < 3:
            row["fields"] = _json_fields(field.kind, depth + 1)
        rows.append(row)
    return rows
