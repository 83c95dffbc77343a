"""Prose that was cleaned stays clean: the words and lengths that `python -m tests.repo.words PATH` refuses."""

import pytest

from tests.repo.words import MOST_WORDS, REFUSED, Prose, faults, findings, markdown, python
from tools.local.paths import ROOT

# Files and folders whose prose was read, one per line. The list only grows; `git mv` takes its line along.
CLEAN = (ROOT / "tests" / "repo" / "clean.txt").read_text().split()

BAD = {
    "Needed by whoever waits.": "whoever",
    "Takes whatever comes.": "whatever",
    "The name of what failed.": "of what",
    "They return what is left.": "return what",
    "The order is none.": "is none",
    "It waits for ever.": "for ever",
    "The tick is told.": "told",
    "The app looks whether it runs.": "looks whether",
    "After two looks, it stops.": "two looks",
    "The copy stands in the place of the original.": "in the place of",
    "The task asks for a slot.": "asks for",
    "The row stays as it is.": "as it is",
    "It costs 3 requests a chunk.": "requests a chunk",
    "As the paper says.": "paper",
    "The seed of the design.": "seed",
}
GOOD = (
    "The tick logs the error and retries.",
    "A random seed, `seed`, seed=7 and seed 7 are fine.",
    "What does this cost? It costs 3 requests per chunk.",
    "`whoever` in backticks is a name.",
    "The value is None.",
)


def texts(found):
    """Return the faults without their lines."""
    return [fault for _, fault in found]


@pytest.mark.parametrize("path", CLEAN)
def test_prose_that_was_cleaned_stays_clean(path):
    """No comment, docstring, message or page of a cleaned package uses a refused word or a long sentence."""
    assert (ROOT / path).exists()
    assert [str(finding) for finding in findings(ROOT / path)] == []


@pytest.mark.parametrize("sentence", BAD)
def test_a_refused_word_is_found(sentence):
    """Each pattern refuses its sample."""
    (fault,) = texts(faults(Prose(1, sentence)))
    assert fault.startswith(f"'{BAD[sentence]}': ")


def test_every_pattern_has_a_sample():
    """A pattern that matches nothing would hold nothing."""
    assert len({fault.split(": ", 1)[1] for text in BAD for fault in texts(faults(Prose(1, text)))}) == len(REFUSED)


@pytest.mark.parametrize("sentence", GOOD)
def test_plain_prose_passes(sentence):
    """Names in backticks, questions and random seeds are no faults."""
    assert texts(faults(Prose(1, sentence))) == []


def test_a_sentence_has_a_bound():
    """The longest sentence passes, one word more does not, and a new item of a list starts anew."""
    longest = " ".join(["word"] * MOST_WORDS)
    assert texts(faults(Prose(1, f"{longest}. {longest}.\n- {longest}"))) == []
    assert texts(faults(Prose(1, f"{longest} word."))) == [
        f"{MOST_WORDS + 1} words in a sentence, the limit is {MOST_WORDS}"
    ]


def test_a_docstring_begins_with_a_verb_or_a_noun_and_one_clause():
    """`What ...`, `Whether ...` and a second clause are refused in a docstring, not in a comment."""
    for text in ("What is left.", "Whether it runs.", "Who waits.", "Count; then stop."):
        assert len(texts(faults(Prose(1, text, docstring=True)))) == 1
        assert texts(faults(Prose(1, text))) == []


def test_comments_docstrings_and_messages_are_read_with_their_lines():
    """A comment of two lines is one piece, code is none, and an f-string is one message."""
    source = '"""Doc."""\n\nX = 1  # noqa: E1\n# One\n# two.\nraise ValueError(f"no {X} was found here")\n'
    assert [(prose.line, prose.text) for prose in python(source)] == [
        (4, "One\ntwo."),
        (1, "Doc."),
        (6, "no x was found here"),
    ]


def test_a_page_is_read_without_its_code_and_generated_tables():
    """Paragraphs and hand-written cells are prose; blocks of code and tables that a command writes are not."""
    page = "One.\n\n```sh\ntold\n```\n\n| a | told |\n\n<!-- made by `make docs`: x -->\ntold\n<!-- end -->\n\nLast."
    assert [(prose.line, prose.text) for prose in markdown(page) if prose.text.strip()] == [
        (1, "One."),
        (7, "a"),
        (7, "told"),
        (13, "Last."),
    ]
