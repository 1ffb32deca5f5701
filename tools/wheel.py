"""Install the wheel of a folder in an empty environment, and run the demo from it.

    python -m tools.wheel dist

The demo runs in a folder without the project's source. The command fails if a file of the package is missing in
the wheel, if `anylayer` does not start, or if the demo fails.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "anylayer"


def main(folder: Path) -> None:
    """Try the only wheel of a folder."""
    (wheel,) = folder.glob("*.whl")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        venv.create(place / "env")
        python = place / "env" / "bin" / "python"
        install = [
            sys.executable,
            "-m",
            "pip",
            "--quiet",
            "--python",
            str(python),
            "install",
            str(wheel.resolve()),
        ]
        run(install, place)
        require_complete(python, place)
        shutil.copytree(ROOT / "examples" / "hed", place / "hed")
        run([str(python), "hed/make_model.py", "hed/hed.caffemodel"], place)
        run([str(python), "-m", "anylayer", *DEMO], place)
        if not (place / "edges.png").is_file():
            sys.exit("the demo wrote no edges.png")
    print(f"{wheel.name}: installed in an empty environment, and the demo runs")


DEMO = (
    *("run", "hed/deploy.prototxt", "hed/hed.caffemodel", "-l", "hed/layers.py"),
    *("-i", "hed/picture.png", "--blob", "sigmoid-fuse", "-o", "edges.png"),
)


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder and return what it prints. End the program if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def require_complete(python: Path, folder: Path) -> None:
    """Compare the files of the installed package with those of the source."""
    where = "import anylayer, pathlib; print(pathlib.Path(anylayer.__file__).parent)"
    installed = files(Path(run([str(python), "-c", where], folder).strip()))
    missing, more = sorted(files(PACKAGE) - installed), sorted(installed - files(PACKAGE))
    if missing or more:
        sys.exit(f"the wheel lacks {missing}, and has {more} in addition")


def files(folder: Path) -> set[str]:
    """Return the names of the files of a package, without what Python compiles."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
