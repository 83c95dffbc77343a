"""Makes a new project in an empty folder."""

from pathlib import Path

from tools.project.files import MANIFEST, Release


class NotEmptyError(Exception):
    """Raised when a new project would stand among other files."""


def make(folder: Path, release: Release) -> int:
    """Write the files of a release into a folder and return their number. The manifest is the last one."""
    if folder.exists() and not folder.is_dir():
        raise NotEmptyError(f"{folder} is a file: name a folder that does not exist, or an empty one")
    if folder.exists() and (found := next(iter(sorted(folder.iterdir())), None)):
        raise NotEmptyError(
            f"{folder} is not empty (it has {found.name}): name a folder that does not exist, or an empty one; "
            "`sluice upgrade` brings a project to another release"
        )
    for name, one in sorted(release.files.items(), key=lambda item: item[0] == MANIFEST):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(one.content)
        if one.may_run:
            file.chmod(0o755)
    return len(release.files)
