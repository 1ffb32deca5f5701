"""The results: one JSON file to which each part of the benchmark adds its rows."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.setup import Row

PACKAGES = ("numpy", "onnx", "onnxruntime", "openvino", "ncnn")
PEERS = ("opencv-python-headless", "ncnn")
Results = dict[str, Any]


def empty() -> Results:
    """Return results without rows."""
    return {"machine": machine(), "versions": {}, "rows": []}


def load(path: Path) -> Results:
    """Return the results in a file; empty ones if there is no file."""
    if not path.exists():
        return empty()
    found: Results = json.loads(path.read_text())
    return found


def begin(path: Path, peers: str | None) -> Results:
    """Return the results in a file, with this machine and its versions. Rows of another machine are dropped."""
    found, here = load(path), machine()
    same = all(found["machine"].get(key) == here[key] for key in ("processor", "cores"))
    return {"machine": here, "versions": versions(peers), "rows": found["rows"] if same else []}


def save(path: Path, results: Results) -> None:
    """Write the file completely or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(results, indent=1) + "\n")
    beside.replace(path)


def merge(results: Results, rows: Iterable[Row]) -> Results:
    """Return the results with these rows. Each row gets today's date and replaces an older row of the same part
    and name.
    """
    day = datetime.date.today().isoformat()
    kept = {(row["part"], row["name"]): row for row in results["rows"]}
    for row in rows:
        kept[row["part"], row["name"]] = {**row, "day": day}
    return {**results, "rows": list(kept.values())}


def rows(results: Results, part: str) -> list[Row]:
    """Return the rows of a part, in the order in which they were first measured."""
    return [row for row in results["rows"] if row["part"] == part]


def machine() -> dict[str, Any]:
    """Return what the figures depend on: processor, number of cores, memory, system, Python."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    name = fields.get("model name", platform.processor())
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return {
        "processor": name,
        "avx512": "avx512f" in fields.get("flags", ""),
        "virtual": "hypervisor" in fields.get("flags", ""),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def versions(peers: str | None) -> dict[str, str]:
    """Return the version of every package that is measured, taken from the environment that has it."""
    found = {name: version for name in PACKAGES if (version := _version(name))}
    if peers is None:
        return found
    code = "import sys; from importlib import metadata; print(*map(metadata.version, sys.argv[1:]))"
    done = subprocess.run([peers, "-c", code, *PEERS], capture_output=True, text=True, check=False)
    return {**found, **dict(zip(PEERS, done.stdout.split()))}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
