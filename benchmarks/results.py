"""What was measured, in one JSON file that parts of the benchmark add their rows to."""

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
    """Results without a row."""
    return {"machine": machine(), "versions": {}, "rows": []}


def load(path: Path) -> Results:
    """The results in a file; empty ones where there is none."""
    if not path.exists():
        return empty()
    found: Results = json.loads(path.read_text())
    return found


def begin(path: Path, peers: str | None) -> Results:
    """The results in a file to add to, with this machine and its versions; without the rows of another machine."""
    found, here = load(path), machine()
    same = all(found["machine"].get(key) == here[key] for key in ("processor", "cores"))
    return {"machine": here, "versions": versions(peers), "rows": found["rows"] if same else []}


def save(path: Path, results: Results) -> None:
    """Write the file, whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(results, indent=1) + "\n")
    beside.replace(path)


def merge(results: Results, rows: Iterable[Row]) -> Results:
    """The results with these rows, each in place of an older one of its part and name, each with its day."""
    day = datetime.date.today().isoformat()
    kept = {(row["part"], row["name"]): row for row in results["rows"]}
    for row in rows:
        kept[row["part"], row["name"]] = {**row, "day": day}
    return {**results, "rows": list(kept.values())}


def rows(results: Results, part: str) -> list[Row]:
    """The rows of a part, in the order they were first measured."""
    return [row for row in results["rows"] if row["part"] == part]


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, number of cores, memory, system, Python."""
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
    """Version of every package measured; the peers' as their environment has them."""
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
