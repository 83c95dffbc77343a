"""Finds prose that a stranger reads twice: by words and by length. `python -m tests.repo.words shared/ids` lists it."""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.local.paths import ROOT

MOST_WORDS = 30
# A string constant of fewer words is a name, a key or a format.
LEAST_WORDS = 4

_COUNTED = "chunk|command|file|function|gate|instance|job|message|node|package|process|queue|request|row|stage|task"
_COUNTED += "|tick|transaction|trigger|worker"
_PREPOSITION = "about|as|at|behind|beside|between|but|by|for|from|in|into|like|of|on|than|to|with|without"

# The pattern, and the remedy. A match inside backticks or a block of code does not count.
REFUSED = {
    r"\b(whoever|somebody|nobody|anybody)\b": "name the actor",
    r"\bwhatever\b": "name the thing",
    rf"\b({_PREPOSITION}) what\b(?![^.]*\?)": "name the thing, not 'what ...'",
    r"\breturns? what\b": "name the value that is returned",
    r"\b(is|are|was|were) (?-i:none)\b": "say what it is, or give the value and the bound",
    r"\bfor ever\b": "'forever', or give the bound",
    r"\btold\b": "log, notify, report, answer",
    r"\blook(s|ed|ing)? whether\b": "'check whether'",
    r"\b(an?|one|each|every|next|last|first|second|other) looks?\b|\btwo looks\b": "'read' or 'check'",
    r"\bin the place of\b": "'instead of', 'in place of'",
    r"\b(ask(s|ed|ing)? for)\b": "'request'",
    r"\bas it is\b": "'unchanged', 'current'",
    rf"\b(bytes|requests|rows|messages|tasks|price|cost|one (?!with|of|in|on|for|by|to|from|at|as|and)\w+|\d[\d,.]*) an? ({_COUNTED})\b": "'per' for a rate",
    r"\b(paper|article)s?\b": "cite docs/origins.md",
    r"(?<!random )(?<!--)(?<!gate )\bseed(s|ed)?\b(?!=| \d)": "'example', 'origin'; a random seed is called so",
}
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), remedy) for pattern, remedy in REFUSED.items()]
_FIRST_LINE = re.compile(r"(what|whether|who)\b", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*(!|noqa|type:|pragma|ruff:|mypy:|fmt:)")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')*_]*\s+")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """One fault of prose, and where it stands."""

    path: Path
    line: int
    fault: str

    def __str__(self) -> str:
        """Return it as an editor finds it."""
        return f"{self.path}:{self.line}: {self.fault}"


class Prose(NamedTuple):
    """A paragraph, a comment, a docstring or a message, from `line` on."""

    line: int
    text: str
    docstring: bool = False
    message: bool = False


def findings(path: Path) -> list[Finding]:
    """Return the faults of a file, or of all files below a folder."""
    return [Finding(path, line, fault) for path in _files(path) for line, fault in sorted(set(_faults(path)))]


def _files(path: Path) -> Iterator[Path]:
    """Yield the file, or all Python and Markdown below the folder."""
    if path.is_file():
        yield path
        return
    yield from sorted(file for ending in ("*.py", "*.md") for file in path.rglob(ending))


def _faults(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each fault of a file."""
    text = path.read_text()
    for prose in markdown(text) if path.suffix == ".md" else python(text):
        yield from faults(prose)


def faults(prose: Prose) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each fault of one piece of prose."""
    plain = re.sub(r"`[^`]*`", lambda code: "x" + "\n" * code[0].count("\n"), prose.text)
    for pattern, remedy in _PATTERNS:
        for found in pattern.finditer(re.sub(r"\n", " ", plain)):
            yield prose.line + plain.count("\n", 0, found.start()), f"'{found[0]}': {remedy}"
    if prose.docstring:
        yield from _first_line(prose.line, plain)
    if not prose.message:
        yield from _long_sentences(prose.line, plain)


def _first_line(line: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield the faults of a docstring's first paragraph, which says the whole in one clause."""
    summary = text.strip().split("\n\n")[0]
    if found := _FIRST_LINE.match(summary):
        yield line, f"a docstring begins with '{found[0]}': use an imperative verb or a noun"
    if ";" in summary:
        yield line, "';' in the first sentence of a docstring: two sentences"


def _long_sentences(line: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence beyond the bound, paragraph by paragraph."""
    start = 0
    for paragraph in re.split(r"(\n\s*\n|\n\s*[-*] |\n\s*\d+\. )", text):
        at = start
        for sentence in _SENTENCE.split(paragraph):
            words = len(re.findall(r"[\w'/-]*\w[\w'/-]*", sentence))
            if words > MOST_WORDS:
                at = text.index(sentence, start)
                yield line + text.count("\n", 0, at), f"{words} words in a sentence, the limit is {MOST_WORDS}"
        start += len(paragraph)


def python(text: str) -> Iterator[Prose]:
    """Yield the comments, docstrings and messages of a module."""
    yield from _comments(text)
    tree = ast.parse(text)
    documented = [node for node in ast.walk(tree) if isinstance(node, Documented)]
    first = [node.body[0] for node in documented if ast.get_docstring(node) is not None]
    docstrings = {expression.value for expression in first if isinstance(expression, ast.Expr)}
    for node in docstrings:
        yield Prose(node.lineno, str(node.value), docstring=True)  # type: ignore[attr-defined]
    yield from _messages(tree, docstrings)


def _messages(tree: ast.Module, docstrings: set[ast.expr]) -> Iterator[Prose]:
    """Yield every string that is a sentence: messages of errors, helps, remedies."""
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inner = {part for node in formatted for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in inner:
            value = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner | docstrings:
            value = node.value
        else:
            continue
        if len(value.split()) >= LEAST_WORDS:
            yield Prose(node.lineno, value.replace("\n", " "), message=True)


def _comments(text: str) -> Iterator[Prose]:
    """Yield the comments; lines that follow one another are one comment."""
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string):
            continue
        if block and token.start[0] != block[-1].start[0] + 1:
            yield _joined(block)
            block = []
        block.append(token)
    if block:
        yield _joined(block)


def _joined(block: Iterable[tokenize.TokenInfo]) -> Prose:
    """Return the lines of one comment."""
    lines = list(block)
    return Prose(lines[0].start[0], "\n".join(token.string.lstrip("# ") for token in lines))


def markdown(text: str) -> Iterator[Prose]:
    """Yield paragraphs, list items and cells; what a command writes is checked where the command takes it from."""
    hidden = r"^```.*?^```|<!-- made by .*?<!-- end -->|<!--.*?-->"
    shown = re.sub(hidden, lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    shown = re.sub(r"\]\([^)]*\)", "]", shown)
    line = 1
    for block in re.split(r"(\n\s*\n)", shown):
        yield from _cells(line, block) if block.startswith("|") else [Prose(line, block)]
        line += block.count("\n")


def _cells(line: int, table: str) -> Iterator[Prose]:
    """Yield each cell of a table."""
    for number, row in enumerate(table.splitlines()):
        for cell in row.strip("|").split("|"):
            yield Prose(line + number, cell.strip())


def main(paths: list[str]) -> int:
    """Print the faults below the paths, and how many there are."""
    found = [finding for path in paths for finding in findings(ROOT / path)]
    for finding in found:
        print(finding._replace(path=finding.path.relative_to(ROOT)))  # noqa: T201
    print(f"{len(found)} faults")  # noqa: T201
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
