"""The `sluice` command, as a script and as `python -m sluice`."""

import gc
import sys


def main() -> None:
    """Run the command, or say how to install what it needs."""
    # Imports make no garbage: the search for it is a tenth of a short call. The command's groups turn it on.
    gc.disable()
    try:
        from tools.cli.doors import open_by_name  # noqa: PLC0415 - before any other part is imported

        open_by_name()
        from tools.cli.main import main as run  # noqa: PLC0415 - only here is its absence told in a sentence
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer"}:
            raise
        print(f"sluice: the command needs {error.name}: pip install 'sluice[cli]'", file=sys.stderr)
        sys.exit(2)
    try:
        run()
    finally:
        # The interpreter searches all modules for garbage as it ends, which is a fifth of a short call.
        gc.freeze()


if __name__ == "__main__":
    main()
