"""The text of a file as the project's release had it: from an archive, from this program, or from the project's git."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.project.files import File, Release, sha256

#: Commits of a file that are looked at, the newest first.
MOST_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Bases:
    """Where the text of the project's own release may be found."""

    project: Path
    releases: Sequence[Release]

    def find(self, name: str, wanted: str) -> File | None:
        """Return the file with this hash, or None."""
        for release in self.releases:
            if (one := release.files.get(name)) and one.hash == wanted:
                return one
        return self._committed(name, wanted)

    def tests(self) -> dict[str, str]:
        """Return the hashes of the release's own tests, as far as an archive has them."""
        return {name: one.hash for release in self.releases for name, one in release.tests.items()}

    def _committed(self, name: str, wanted: str) -> File | None:
        commits = run_git(self.project, "log", f"--max-count={MOST_COMMITS}", "--format=%H", "--", name)
        for commit in (commits or b"").decode().split():
            content = run_git(self.project, "show", f"{commit}:./{name}")
            if content is not None and sha256(content) == wanted:
                return File(content)
        return None


def run_git(project: Path, *words: str) -> bytes | None:
    """Return the answer of git in a project, or None where there is no git, or it refuses."""
    git = shutil.which("git")
    if git is None or not project.exists():
        return None
    done = subprocess.run([git, *words], cwd=project, capture_output=True, check=False)  # noqa: S603 - git, by absolute path
    return done.stdout if done.returncode == 0 else None
