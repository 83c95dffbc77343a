"""The `sluice` command, as a script and as `python -m sluice`."""

import sys


def main() -> None:
    """Run the command, or say how to install what it needs."""
    try:
        from tools.cli.doors import open_by_name  # noqa: PLC0415 - before any other part is imported

        open_by_name()
        from tools.cli.main import main as run  # noqa: PLC0415 - only here is its absence told in a sentence
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer"}:
            raise
        print(f"sluice: the command needs {error.name}: pip install 'sluice[cli]'", file=sys.stderr)
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
