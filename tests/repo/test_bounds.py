"""The table of bounds in docs/capacity.md: each value is that of the code, and each module that is named enforces it."""

import re

import pytest

from local.bounds_table import BOUNDS
from local.paths import ROOT

PAGE = (ROOT / "docs" / "capacity.md").read_text()


@pytest.mark.parametrize("bound", BOUNDS, ids=[one.name for one in BOUNDS])
def test_a_bound_is_on_the_page_and_compared_with_where_the_page_says(bound):
    """A bound that nobody compares with is a comment."""
    assert f"| {bound.what} | {bound.text} |" in PAGE
    module, _, name = bound.constant.partition(":")
    text = (ROOT / bound.enforced).read_text()
    uses = [
        line
        for line in text.splitlines()
        if re.search(rf"\b{name}\b", line)
        and not re.match(rf"\s*(from|import|#)\b|\s*{name}(: [\w\[\]]+)? = ", line)
        and line.strip(" ,") != name
    ]
    assert uses, f"{bound.enforced} does not use {name} of {module}"


def test_no_bound_stands_twice():
    """A constant has one row for each module that enforces it."""
    assert len({(one.constant, one.enforced) for one in BOUNDS}) == len(BOUNDS)
