"""Senders as Azure's login names them: a stand-in for its header, which is base64 of JSON."""

import base64
import json

NAME, ROLE = "http://claims/name", "http://claims/role"
OBJECT_ID = "http://schemas.microsoft.com/identity/claims/objectidentifier"


def encode(document):
    """Return a header of this document."""
    return base64.b64encode(json.dumps(document).encode()).decode()


def describe(*roles, name="dana@example.com", ids=("0-1-2",), auth="aad", role_typ=ROLE, claims=()):
    """Return a header of a sender with these roles."""
    said = [(NAME, name), *((OBJECT_ID, one) for one in ids), *((ROLE, role) for role in roles), *claims]
    listed = [{"typ": typ, "val": val} for typ, val in said]
    return encode({"auth_typ": auth, "claims": listed, "name_typ": NAME, "role_typ": role_typ})
