"""The commands of `python -m tools.local`. Standard library only, because it runs before anything is installed.

A command that needs the installation makes it first, then hands over to the virtual environment's interpreter.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.local import installation, lock, up_options, verify_clone
from tools.local.errors import StackError
from tools.local.paths import ACTIVATE, ROOT, STACK, VENV, venv_python

#: Written by tools beside the code; `make clean` removes them with the installation.
CACHES = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "sluice.egg-info", "build")


def main(arguments: Sequence[str]) -> int:
    """Run one command. A failure is one line on stderr, a traceback only with SLUICE_TRACEBACK=1."""
    options, rest = _parser().parse_known_args(arguments)
    try:
        _refuse_unknown(options.command, rest)
        status: int = options.run(options, rest)
    except StackError as error:
        if os.environ.get("SLUICE_TRACEBACK"):
            raise
        print(f"sluice {options.command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A full disk, a folder that may not be written to.
        if os.environ.get("SLUICE_TRACEBACK"):
            raise
        print(f"sluice {options.command}: {error.strerror or error}: {error.filename or ROOT}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"sluice {options.command}: stopped", file=sys.stderr)
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.local", description="Sluice on this machine.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run, text in COMMANDS:
        command = commands.add_parser(name, help=text, description=text, add_help=name not in PASSING_HELP_ON)
        command.set_defaults(run=run)
    return parser


def _refuse_unknown(command: str, rest: Sequence[str]) -> None:
    """Find a wrong word before an installation that takes a minute."""
    known = WORDS.get(command)
    unknown = [] if known is None else [word for word in rest if word not in known]
    if unknown:
        raise StackError(f"it does not know {' '.join(unknown)!r}; it takes {' or '.join(known or ()) or 'no options'}")


def _up(_options: argparse.Namespace, rest: list[str]) -> int:
    up_options.parse(rest)
    return _in_venv("-m", "tools.local.up")(_options, rest)


def _setup(_options: argparse.Namespace, rest: list[str]) -> int:
    began = time.monotonic()
    if "--browser" in rest:
        installation.ensure_browser()
    elif "--others" in rest:
        installation.ensure_others()
    elif "--parquet" in rest:
        installation.ensure_parquet()
    else:
        installation.ensure()
    print(
        f"sluice: ready after {time.monotonic() - began:.1f} s; `{ACTIVATE}` lets this terminal find the sluice command"
    )
    return 0


def _in_venv(*command: str) -> Callable[[argparse.Namespace, list[str]], int]:
    def run(_options: argparse.Namespace, rest: list[str]) -> int:
        installation.ensure()
        if os.name == "posix":
            # In place of this process, which a signal would end alone.
            os.chdir(ROOT)
            sys.stdout.flush()
            os.execv(venv_python(), [str(venv_python()), *command, *rest])  # noqa: S606 - the installed interpreter
        return _python(*command, *rest)

    return run


def _test(options: argparse.Namespace, rest: list[str]) -> int:
    # Otherwise each program that a test starts compiles all that it imports: a third of the CPU of a run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not (ROOT / "tests").exists():
        # A project of one's own, where nothing is left out.
        rest = [word for word in rest if word != "--all"]
    return _in_venv("-m", "pytest", *SIDE_BY_SIDE)(options, rest)


def _check(_options: argparse.Namespace, _rest: list[str]) -> int:
    installation.ensure()
    statuses = [
        _python("-m", "ruff", "check", "."),
        _python("-m", "ruff", "format", "--check", "."),
        _python("-m", "mypy"),
        _python("-m", "tools.local.infra"),
    ]
    if (ROOT / "tests").exists():
        statuses.append(_collect())
    return max(statuses)


def _collect() -> int:
    """Import every test, also those that only CI runs: a name that moved is seen in seconds, not half an hour later."""
    done = subprocess.run(
        [str(venv_python()), "-m", "pytest", "--all", "--collect-only", "-q"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # All names of a run that finds them help no reader.
    print(done.stdout.rstrip().rpartition("\n")[2] if done.returncode == 0 else done.stdout + done.stderr)
    return done.returncode


def _others(_options: argparse.Namespace, rest: list[str]) -> int:
    installation.ensure_others()
    return _python("-m", "pytest", "tests/others", *rest)


def _browser(_options: argparse.Namespace, rest: list[str]) -> int:
    installation.ensure_browser()
    return _python("-m", "pytest", "tests/browser", "--need-browser", *rest)


def _lock(_options: argparse.Namespace, rest: list[str]) -> int:
    installation.ensure()
    lock.write(upgrade="--upgrade" in rest)
    return 0


def _upgrade(_options: argparse.Namespace, rest: list[str]) -> int:
    """Run the command of another release on this project. Its packages are kept apart from the project's."""
    to, *more = rest or [""]
    if not to:
        raise StackError("it needs a release to come to: make upgrade TO=0.3.0, or TO=FILE with a wheel of it")
    installation.ensure()
    # Its downloads stay here, unless the environment names another folder.
    for name, folder in (("UV_CACHE_DIR", "uv"), ("UV_TOOL_DIR", "uv-tools"), ("UV_PYTHON_INSTALL_DIR", "uv-python")):
        os.environ.setdefault(name, str(STACK / "kept" / folder))
    file = Path(to).resolve()
    address = file.as_uri() if file.is_file() else to
    what = f"sluice[cli] @ {address}" if "://" in address else f"sluice[cli]=={to}"
    return _python("-m", "uv", "tool", "run", "--from", what, "sluice", "upgrade", str(ROOT), *more)


def _verify_clone(_options: argparse.Namespace, rest: list[str]) -> int:
    return verify_clone.run(rest or ["test", "demo"])


def _clean(_options: argparse.Namespace, _rest: list[str]) -> int:
    bytecode = [cache for folder in _source_folders() for cache in folder.rglob("__pycache__")]
    for folder in (VENV, STACK, *(ROOT / name for name in CACHES), *bytecode):
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _source_folders() -> list[Path]:
    return [ROOT / name for name in ("sluice", "shared", "functions", "capabilities", "own", "tests", "tools")]


def _python(*arguments: str) -> int:
    """Run the installed interpreter to its end. Ctrl-C reaches it too, and this process waits for it."""
    with subprocess.Popen([str(venv_python()), *arguments], cwd=ROOT) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


#: Tests of one file share what they started. They wait much, so there are more workers than cores. Their order is that of
#: tests/left_out.py.
SIDE_BY_SIDE = ("--numprocesses=6", "--dist=loadfile", "--no-loadscope-reorder")
#: What may follow a command. One that is not here passes everything on, and what it starts refuses by itself.
WORDS: dict[str, tuple[str, ...]] = {
    "demo": (),
    "check": (),
    "docs": (),
    "vendor": (),
    "clean": (),
    "deploy": ("--check",),
    "lock": ("--upgrade",),
    "setup": ("--browser", "--others", "--parquet"),
}
#: Their own `--help` tells more than this entry knows.
PASSING_HELP_ON = {"up", "prove", "test", "bench", "faults", "fuzz", "others", "browser"}
COMMANDS = (
    ("demo", _in_venv("-m", "tools.local.demo"), "start the stack, show what Sluice does, stop the stack"),
    (
        "up",
        _up,
        "run the stack in the foreground until Ctrl-C, so that publishers can drop messages",
    ),
    ("test", _test, "run the tests that a change needs (--all: all of them, as CI does); what follows goes to pytest"),
    ("check", _check, "lint, check types, and check what would be deployed"),
    ("bench", _in_venv("-m", "tests.benchmarks"), "run the benchmarks and write their tables into the docs"),
    (
        "faults",
        _in_venv("-m", "tests.faults"),
        "break every storage request in every way, check what is left, and write docs/appendix/faults.md (about an hour)",
    ),
    (
        "fuzz",
        _in_venv("-m", "tests.fuzz"),
        "try a million hostile inputs at every door, and write what came of them into docs/appendix/security.md",
    ),
    (
        "others",
        _others,
        "install what others wrote for the local stack and try the stack with it; what follows goes to pytest",
    ),
    (
        "browser",
        _browser,
        "use the console's pages in this machine's Chromium or Chrome, and fail without one; what follows goes to pytest",
    ),
    (
        "docs",
        _in_venv("-m", "tools.local.docs"),
        "write what comes from the code: tables of the documentation, files of infra/",
    ),
    (
        "deploy",
        _in_venv("-m", "tools.local.deploy"),
        "check your code as Azure would load it, then deploy it by azd (--check: check alone, without azd)",
    ),
    (
        "prove",
        _in_venv("-m", "tools.local.prove"),
        "create a whole installation in Azure, examine it, write the dated page, remove it (--local: rehearse it here)",
    ),
    ("vendor", _in_venv("-m", "tools.local.vendor"), "bring the files of others that the console's pages load"),
    (
        "release",
        _in_venv("-m", "tests.release"),
        "freeze the committed version: what it stores and promises, its wheel and its manifest",
    ),
    ("upgrade", _upgrade, "show what comes with another release, or bring the project to it (--write)"),
    ("lock", _lock, "make the lock files from pyproject.toml and own/requirements.txt (--upgrade: newest versions)"),
    (
        "setup",
        _setup,
        "install everything into .venv and .stack, as every other command does (--browser, --others, --parquet: also for tests/browser, tests/others or Parquet files)",
    ),
    ("verify-clone", _verify_clone, "prove that a fresh clone with an empty HOME and no system Node tests and demos"),
    ("clean", _clean, "remove everything that these commands installed or wrote"),
)
