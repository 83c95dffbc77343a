"""Tokens of a key: which are right, for what, and in which words the others are refused."""

import pytest
from azure.servicebus._pyamqp.utils import generate_sas_token
from servicebus_local.refusal import Refusal
from servicebus_local.tokens import POLICY, Gatekeeper, Policy, Right, demand, read_policies, written

KEY = "a+key/of=this test"
NOW = 1_000.0


def _gatekeeper():
    return Gatekeeper([Policy(POLICY, KEY)], clock=lambda: NOW)


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


SEND = Policy("both", "key of the senders", {Right.SEND}, "orders")
LISTEN = Policy("both", "key of the listeners", {Right.LISTEN})


@pytest.mark.parametrize(
    ("uri", "policy", "rights"),
    [
        ("sb://here/orders", SEND, {Right.SEND}),
        ("sb://here/orders/$management", SEND, {Right.SEND}),
        ("sb://here/orders", LISTEN, {Right.LISTEN}),
        ("sb://here/", LISTEN, {Right.LISTEN}),
    ],
)
def test_two_policies_of_one_name_are_told_apart_by_their_keys(uri, policy, rights):
    """An entity may have a policy of the name that the namespace's has."""
    gatekeeper = Gatekeeper([SEND, LISTEN], clock=lambda: NOW)
    assert gatekeeper.scope(_token(uri, policy.name, policy.key)).rights == rights


@pytest.mark.parametrize("uri", ["sb://here/", "sb://here/orders-too", "sb://here/$resources/queues"])
def test_a_policy_of_an_entity_signs_for_no_other(uri):
    """Nor for the namespace, with its own right key."""
    with pytest.raises(Refusal, match="InvalidSignature"):
        Gatekeeper([SEND, LISTEN], clock=lambda: NOW).scope(_token(uri, SEND.name, SEND.key))


def test_rights_of_two_tokens_do_not_add_up():
    """What needs both rights needs a policy that has both."""
    gatekeeper = Gatekeeper([SEND, LISTEN], clock=lambda: NOW)
    scopes = [gatekeeper.scope(_token(policy=one.name, key=one.key)) for one in (SEND, LISTEN)]
    demand(scopes, "orders", (Right.SEND,), NOW)
    demand(scopes, "orders", (Right.LISTEN,), NOW)
    with pytest.raises(Refusal, match="'Send' claim"):
        demand(scopes, "orders", (Right.SEND, Right.LISTEN), NOW)
    with pytest.raises(Refusal, match="No valid token"):
        demand(scopes, "orders", (), 2_000.0)


def test_a_file_of_policies_is_read_as_it_was_written(tmp_path):
    """And one with a fault is refused by its name."""
    file = tmp_path / "policies.json"
    file.write_text(written([SEND, LISTEN]))
    assert read_policies(file) == [SEND, LISTEN]
    for wrong in ('{"name": 1}', '[{"name": "a", "key": "k", "rights": ["Read"]}]', '[{"name": "a", "entity": "b"}]'):
        file.write_text(wrong)
        with pytest.raises(ValueError, match="policies as expected"):
            read_policies(file)


def test_manage_comes_with_the_other_two_rights():
    """As Azure refuses it otherwise; a policy without a right or a key is refused too."""
    for rights, key in (({Right.MANAGE}, "k"), ({Right.MANAGE, Right.SEND}, "k"), (set(), "k"), ({Right.SEND}, "")):
        with pytest.raises(ValueError, match="policy 'wrong'"):
            Policy("wrong", key, rights)
