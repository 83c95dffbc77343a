"""Tokens of a key: which are right, for what, and in which words the others are refused."""

import pytest
from azure.servicebus._pyamqp.utils import generate_sas_token
from servicebus_local.refusal import Refusal
from servicebus_local.tokens import POLICY, Gatekeeper

KEY = "a+key/of=this test"
NOW = 1_000.0


def _gatekeeper():
    return Gatekeeper(KEY, clock=lambda: NOW)


def _token(uri="sb://here/orders", policy=POLICY, key=KEY, ends=2_000):
    return generate_sas_token(uri, policy, key, ends)


def test_a_right_token_is_good_for_its_entity_and_what_is_below_it():
    """Until it ends, whatever the case of the name."""
    scope = _gatekeeper().scope(_token("sb://here:5671/Orders"))
    assert [scope.covers(path) for path in ("orders", "ORDERS/$management", "orders-too", "order", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [scope.lasts(now) for now in (1_999.0, 2_000.0)] == [True, False]


def test_a_token_for_the_namespace_is_good_for_everything():
    """With or without a slash at its end."""
    for uri in ("sb://here", "sb://here/"):
        assert _gatekeeper().scope(_token(uri)).covers("orders/$management")


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (_token(key="another"), "InvalidSignature"),
        (_token(policy="Other"), "InvalidSignature"),
        (_token(ends=999), "ExpiredToken"),
        (_token().replace("orders", "parcels"), "InvalidSignature"),
        (_token().replace("se=2000", "se=3000"), "InvalidSignature"),
        (_token().partition("&skn=")[0], "MalformedToken"),
        ("Bearer eyJ0eXAi", "MalformedToken"),
        ("", "MalformedToken"),
    ],
)
def test_any_other_token_is_refused(token, said):
    """With the service's status, and without a word of the token itself."""
    with pytest.raises(Refusal, match=said) as refused:
        _gatekeeper().scope(token)
    assert refused.value.status == 401
    assert KEY not in refused.value.description
