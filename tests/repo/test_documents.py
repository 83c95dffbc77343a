"""README and docs say what is true: their tables, their commands, their tree, their links."""

import json
import re
import subprocess
from functools import cache

import pytest

from tools.local import docs
from tools.local.paths import ROOT

DOCUMENTS = docs.documents()
README = (ROOT / "README.md").read_text()
NAMES = [str(document.relative_to(ROOT)) for document in DOCUMENTS]


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_tables_made_from_the_code_are_up_to_date(document):
    """A table that comes from the code is what the code says now."""
    assert docs.render(document.read_text()) == document.read_text(), "run `make docs`"


@pytest.mark.parametrize("file", docs.FILES, ids=lambda file: file.name)
def test_files_made_from_the_code_are_up_to_date(file):
    """An entity, a setting or an alert that the code has, what is deployed has too."""
    assert file.read_text() == docs.FILES[file](), "run `make docs`"


def test_links_inside_the_project_lead_somewhere():
    """Every relative link names a file that is there."""
    links = [
        (document, link)
        for document in DOCUMENTS
        for link in re.findall(r"\]\((?!https?://|#|\.\./\.\./actions/)([^)#\s]+)", document.read_text())
    ]
    assert [link for document, link in links if not (document.parent / link).exists()] == []


@cache
def headings(document):
    """Return the anchors of a document's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_links_to_a_heading_find_it():
    """A heading that was renamed is missed by those who link to it."""
    links = [
        (document, *link)
        for document in DOCUMENTS
        for link in re.findall(r"\]\((?!https?://)([^)#\s]*\.md|)#([^)\s]+)\)", document.read_text())
    ]
    assert [
        f"{document.name}: {name}#{anchor}"
        for document, name, anchor in links
        if anchor not in headings(document.parent / name if name else document)
    ] == []


def test_every_make_target_that_is_named_exists():
    """`make demo` and the like are commands that make knows."""
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split())
    named = set(re.findall(r"`make ([a-z-]+)", text))
    named |= set(re.findall(r"^\s*make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets


def test_the_two_commands_and_what_they_need_stand_by_line_30():
    """Who opens the README sees within one screen what to type and what must be there first."""
    first = "\n".join(README.splitlines()[:30])
    for part in ("make demo", "make test", "C compiler", "3.11", "WSL"):
        assert part in first


def test_the_readme_is_short():
    """Its plan has ninety lines; more belongs on a page that it links."""
    assert len(README.splitlines()) <= 90


def test_the_readme_links_every_page():
    """A page that no link leads to is not found."""
    pages = {document.name for document in DOCUMENTS if document.parent == ROOT / "docs"}
    assert pages == set(re.findall(r"\(docs/([a-z-]+\.md)", README.partition("- First steps: ")[2]))


def test_each_table_of_the_appendix_has_a_page_that_links_to_it():
    """Tables that a command writes or a test compares stand apart from what a person reads."""
    pages = "".join(document.read_text() for document in DOCUMENTS if document.parent == ROOT / "docs")
    tables = {document.name for document in DOCUMENTS if document.parent == ROOT / "docs" / "appendix"}
    assert tables
    # `make prove` writes one that is not there before: it is named by its path.
    assert tables <= set(re.findall(r"(?:\(|`docs/)appendix/([a-z-]+\.md)", pages))


def test_the_tree_in_contributing_is_the_tree():
    """Every folder and file that docs/contributing.md lists is there, and every top-level folder is listed."""
    tree = re.search(r"```text\n(.*?)```", (ROOT / "docs" / "contributing.md").read_text(), re.DOTALL)[1]
    listed = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.strip()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {path.split("/")[0] for path in tracked.splitlines() if "/" in path and not path.startswith(".")}
    assert top - listed == set()
    assert [name for name in listed if not (ROOT / name).exists()] == []


def test_every_key_of_host_json_has_its_reason():
    """The appendix of the design gives a value and a reason for each key; no other key is in its table."""
    table = re.search(
        r"## host\.json\n(.*?)(\n## |\Z)", (ROOT / "docs" / "appendix" / "design.md").read_text(), re.DOTALL
    )[1]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", table, re.MULTILINE))
    assert rows == dict(leaves(json.loads((ROOT / "host.json").read_text())))


def leaves(value, path=""):
    """Yield each leaf of a JSON document with its dotted path."""
    if not isinstance(value, dict):
        yield path, value if isinstance(value, str) else json.dumps(value)
        return
    for key, inner in value.items():
        yield from leaves(inner, f"{path}.{key}".lstrip("."))
