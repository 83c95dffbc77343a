"""What becomes of a file: each row of the table, and the lock files, whose lines are packages."""

import json

import pytest

from tools.project.changes import Kind, decide, join_documents, join_lock, name_lines


@pytest.mark.parametrize(
    ("mine", "old", "new", "kind"),
    [
        ("a", "a", "a", Kind.SAME),
        ("a", "a", "b", Kind.REPLACE),
        ("a", "a", None, Kind.REMOVE),
        (None, None, "b", Kind.NEW),
        ("b", None, "b", Kind.SAME),
        ("x", "a", "a", Kind.KEEP),
        ("x", "a", "b", Kind.MERGE),
        ("b", "a", "b", Kind.SAME),
        ("x", "a", None, Kind.CONFLICT),
        ("x", None, "b", Kind.CONFLICT),
        (None, "a", "b", Kind.KEEP),
        (None, "a", "a", Kind.KEEP),
        (None, "a", None, Kind.SAME),
    ],
)
def test_each_file_has_one_end(mine, old, new, kind):
    """As released: replaced or removed. Changed by the person: kept, merged, or a conflict. Removed by them: stays so."""
    assert decide(mine, old, new) is kind


def test_a_lock_is_the_release_s_with_the_packages_of_the_person():
    """What the release dropped goes, what it added comes, in the order of the names."""
    old = "# made\nalpha==1\nzeta==1\n"
    mine = "# made\nalpha==1\nMy_Own==3 ; python_full_version < '3.13'\nzeta==1\n"
    new = "# made anew\nalpha==2\nbeta==1\n"
    assert join_lock(mine, old, new) == ("# made anew\nalpha==2\nbeta==1\nMy_Own==3 ; python_full_version < '3.13'\n")


def test_marks_of_a_conflict_are_found():
    """By the lines of the merged text."""
    assert name_lines("a\n<<<<<<< yours\nb\n=======\nc\n>>>>>>> the release\n") == "2-6"


@pytest.mark.parametrize(
    ("mine", "new", "joined"),
    [
        ('{"a": 1, "b": {"c": 3}}', '{"a": 2,\n"b": {"c": 2}}', '{"a": 2, "b": {"c": 3}}'),
        ('{"a": 1}', '{"a": 1, "b": {"c": 2}, "d": 4}', '{"a": 1, "d": 4}'),
        ('{"a": 1, "b": {"c": 2}, "mine": null}', '{"b": {"c": 2}}', '{"b": {"c": 2}, "mine": null}'),
        ('{"a": 3, "b": {"c": 2}}', '{"a": 2, "b": {"c": 2}}', None),
        ('{"b": {"c": 2}}', '{"a": 2, "b": {"c": 2}}', None),
        ("{", '{"a": 2}', None),
    ],
    ids=(
        "each another value",
        "theirs is gone and one comes",
        "ours and a new one",
        "the same value",
        "gone",
        "no JSON",
    ),
)
def test_a_document_is_joined_value_by_value(mine, new, joined):
    """However its lines are laid out. A value that both changed is a conflict."""
    found = join_documents(mine.encode(), b'{"a": 1, "b": {"c": 2}}', new.encode())
    assert (found and json.loads(found)) == (joined and json.loads(joined))
