"""The open questions: each is asked by a command or left to a person with a reason, and outputs are read rightly."""

import json
import re

import pytest

from tools.local.paths import ROOT
from tools.local.prove import questions
from tools.local.prove.questions import BY_HAND, QUESTIONS
from tools.local.prove.shell import Done

PAGE = (ROOT / "docs" / "appendix" / "unproven.md").read_text()
ASKED = [line.split("|")[1].strip().replace("\\", "") for line in PAGE.splitlines() if line.startswith("| ")][2:]
BY_COMMAND = {one.asked: one for one in QUESTIONS}


@pytest.mark.parametrize("asked", ASKED)
def test_each_question_of_the_page_is_asked_or_left_with_a_reason(asked):
    """Never both."""
    left = [part for part in BY_HAND if part in asked]
    assert (asked in BY_COMMAND) + len(left) == 1


def test_no_question_is_asked_that_the_page_does_not_have():
    """An answered question goes from the page, and from here."""
    assert {*BY_COMMAND} <= {*ASKED}
    assert [part for part in BY_HAND if not any(part in asked for asked in ASKED)] == []


CASES = [
    ("does the compiler", Done(0, "{}", ""), True),
    ("does the compiler", Done(0, "{}", "main.bicep(1,2) : Warning no-unused-params: x"), False),
    ("does a second", Done(0, "  Skip : Resource group : rg\n", ""), True),
    ("does a second", Done(0, "  Modify : Function App : func\n", ""), False),
    ("is a subscription's", [{"name": "release", "filterType": "CorrelationFilter"}], True),
    ("is a subscription's", [{"name": "$Default", "filterType": "SqlFilter"}], False),
    ("is a subscription's", [{"name": name, "filterType": "CorrelationFilter"} for name in "ab"], False),
    ("do lines arrive", [{"Message": "sluice.job.complete {}"}], True),
    ("do lines arrive", [{"Message": "INFO sluice.job.complete {}"}], False),
    ("does sampling", [{"items": "7", "lines": "7"}], True),
    ("does sampling", [{"items": "14", "lines": "7"}], False),
    ("does the app start from the package", {"name": "python", "version": "3.12"}, True),
    ("does the host take", [{"Success": "True", "count_": "3"}], True),
    ("does the host take", [{"Success": "True", "count_": "3"}, {"Success": "False", "count_": "1"}], False),
    ("what do the prices", {"Items": [{"meterName": "a", "retailPrice": 1, "unitOfMeasure": "1 Hour"}]}, None),
]


@pytest.mark.parametrize(("beginning", "output", "is_right"), CASES)
def test_an_output_is_read_as_what_it_says(beginning, output, is_right):
    """A hope that came true, one that did not, and what is neither."""
    [question] = [one for one in QUESTIONS if one.asked.startswith(beginning)]
    done = output if isinstance(output, Done) else Done(0, json.dumps(output), "")
    verdict = question.judge(done)
    assert (verdict.is_right, verdict.is_early) == (is_right, False)
    assert verdict.found


@pytest.mark.parametrize("beginning", ["do lines arrive", "does sampling", "does the host take"])
def test_logs_that_have_not_arrived_are_looked_for_again(beginning, cloud, site):
    """And at last the answer is that nothing came."""
    looks = []
    site.name = "there"
    (cloud.kept / "there").mkdir()
    (cloud.kept / "there" / "values.json").write_text("{}")
    cloud.up(["azd", "up", "--environment", "there"])
    site.values["AZURE_FUNCTION_APP_NAME"] = "func"
    [asked] = [one for one in QUESTIONS if one.asked.startswith(beginning)]
    mark = re.search(r"ItemCount|Success|take 5", asked.words(site)[-3])[0]

    def answer_late(words):
        if mark not in words[7]:
            return None
        looks.append(1)
        return Done(0, "[]", "") if len(looks) < 3 else None

    cloud.faults = {("az", "monitor", "log-analytics", "query"): answer_late}
    questions.ask_all(site)
    assert len(looks) == 3
    assert [one.is_right for one in site.answers if one.question == asked.asked] == [True]


def test_an_output_of_another_form_is_said_and_breaks_nothing(cloud, site):
    """What a newer az prints."""
    cloud.faults = {("az", "functionapp"): lambda _: Done(0, '{"runtime": 1}', "")}
    site.values["AZURE_FUNCTION_APP_NAME"] = "func"
    cloud.faults[("az", "resource")] = lambda _: Done(0, '[{"name": "sb", "id": "/x/sb"}]', "")
    questions.ask_all(site)
    [answer] = [one for one in site.answers if one.question.startswith("does the app start from the package")]
    assert answer.is_right is None
    assert "not as expected (KeyError" in answer.found
