"""No code that only tests call: what of `shared` nobody starts, types or reads about is argued, or it goes."""

from tests.reached.__main__ import against, argued
from tests.reached.graph import Program, repository


def test_everything_is_reached_from_a_trigger_a_command_or_a_page():
    """Or `tests/reached/argued.json` says why it is there; what it argues for and is reached all the same is stale."""
    missing, stale = against([one.key for one in Program(repository()).unreached()], argued())
    assert missing == []
    assert stale == []


def test_every_argument_is_a_sentence_of_its_own():
    """An entry without a reason would be a way to keep what nobody needs."""
    assert [name for name, why in argued().items() if len(why) < 10] == []


def test_what_only_a_test_calls_is_found(tmp_path):
    """A function, a method and a class that nothing leads to; what a text names or a decorator takes is reached."""
    files = {
        "function_app.py": "from shared.work import start\nstart()\n",
        "functions/tick.py": "",
        "tools/cli/main.py": "LOAD = 'shared.work:Loaded'\n",
        "tools/local/up.py": "",
        "docs/page.md": "Call `shown` yourself.",
        "README.md": "",
        "shared/__init__.py": "from shared.work import idle\n",
        "shared/work.py": (
            "from typing import Protocol\n"
            "class Face(Protocol):\n    def declared(self): ...\n"
            "class Kept:\n    def used(self): return other()\n    def unused(self): return 1\n"
            "class Loaded:\n    pass\n"
            "def start():\n    return getattr(Kept(), 'used')()\n"
            "def other(): return Face\n"
            "def idle(): return lost()\n"
            "def lost(): return 1\n"
            "def shown(): return 1\n"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [one.key for one in Program(tmp_path).unreached()]
    assert found == ["shared/work.py:Kept.unused", "shared/work.py:idle", "shared/work.py:lost"]
