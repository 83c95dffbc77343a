"""The one entry of the project on every platform: `python -m tools.local COMMAND`. The Makefile is a thin alias of it.

Standard library only, because it runs before anything is installed. Nothing newer than Python 2.7 in this file: it
names the needed version to the owner of an older Python.
"""

import sys

OLDEST, NEWEST = (3, 11), (3, 14)


def version_problem(version):  # type: (tuple[int, ...]) -> str  # noqa: ANN001, ANN201
    """Return why this Python cannot run the project, or nothing."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return ""
    found = ".".join(str(part) for part in version[:3])
    return (
        "sluice: Python 3.11 to 3.14 is needed, this is "
        + found
        + ": name another, as in `make test PYTHON=python3.12`"
    )


if __name__ == "__main__":
    problem = version_problem(sys.version_info[:3])
    if problem:
        sys.exit(problem)
    # What is installed later is read from its folders before it is.
    from tools.local.paths import PACKAGES

    sys.path += [str(folder / "src") for folder in PACKAGES]
    from tools.local.commands import main

    sys.exit(main(sys.argv[1:]))
