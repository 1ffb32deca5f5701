"""python -m tests.versions [PYTEST ARGUMENT...]: run the suite on other Pythons and with other dependencies.

The suite runs on the oldest Python that pyproject.toml declares, with the lowest declared versions of the
dependencies, and on the newest Python that is found, with the highest versions. (`make test` is the third
combination: the current Python with the highest versions.) Each combination has an environment of its own in
.venv-versions/. uv resolves the versions and finds the Pythons; it downloads no Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv-versions"
NEWEST = 14
"""The newest minor version of Python 3 that exists."""


@dataclass(frozen=True)
class Combination:
    """One Python and one way to choose the versions of the dependencies: uv's `--resolution`."""

    minor: int
    interpreter: str
    resolution: str

    @property
    def name(self) -> str:
        return f"python3.{self.minor}-{self.resolution}"

    @property
    def python(self) -> Path:
        return HOME / self.name / "bin" / "python"


def uv(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run uv from the root of the repository; its errors go to the terminal."""
    command = [sys.executable, "-m", "uv", "--no-python-downloads", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=check, stdout=subprocess.PIPE, text=True)


def interpreter(minor: int) -> str | None:
    """Return the path of Python 3.`minor`, from the PATH or pyenv; None if it is not installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (f"3.{minor}", *sorted(pyenv.glob(f"3.{minor}.*/bin/python"))):
        command = [
            sys.executable,
            "-m",
            "uv",
            "python",
            "find",
            "--no-python-downloads",
            "--system",
            str(candidate),
        ]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.strip()
    return None


def oldest() -> int:
    """Return the lowest minor version of Python 3 that pyproject.toml declares."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    return int(declared.removeprefix(">=3."))


def combinations() -> list[Combination]:
    """Return what can be tested on this machine."""
    found = {minor: path for minor in range(oldest(), NEWEST + 1) if (path := interpreter(minor))}
    chosen = []
    if oldest() in found:
        chosen.append(Combination(oldest(), found[oldest()], "lowest-direct"))
    newest = max(found, default=0)
    if newest > max(oldest(), sys.version_info.minor):
        chosen.append(Combination(newest, found[newest], "highest"))
    return chosen


def install(combination: Combination) -> None:
    """Create the environment with the dependencies at the chosen versions and the newest developer tools."""
    uv("venv", "--quiet", "--clear", "--python", combination.interpreter, HOME / combination.name)
    pins = HOME / f"{combination.name}.txt"
    choose = ["--resolution", combination.resolution, "--extra", "all", "--python", combination.python]
    uv("pip", "compile", "--quiet", "--no-header", *choose, "pyproject.toml", "--output-file", pins)
    uv("pip", "install", "--quiet", "--python", combination.python, "--constraint", pins, "--editable", ".[dev]")


def main(arguments: list[str]) -> int:
    """Test every combination. Return 1 if one fails or if there is none."""
    chosen = combinations()
    codes = {}
    for combination in chosen:
        print(f"== {combination.name}", flush=True)
        install(combination)
        command = [combination.python, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *arguments]
        codes[combination.name] = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": ""}
        ).returncode
    for name, code in codes.items():
        print(f"{name}: {'passed' if code == 0 else f'failed (pytest exits with {code})'}")
    missing = [f"3.{minor}" for minor in range(oldest(), NEWEST + 1) if interpreter(minor) is None]
    if missing:
        print(f"not installed here: Python {', '.join(missing)}")
    return int(not chosen or any(codes.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
