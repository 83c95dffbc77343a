"""A certificate authority of a test's own, and what it certifies."""

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tools.local.azurite.launcher import Tls

PEM = serialization.Encoding.PEM


def certify(folder, *addresses):
    """Write an authority and a server's certificate for these addresses; return where they are."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("authority", authority_key, authority_key, "authority", is_authority=True, addresses=())
    server = _certificate("server", key, authority_key, "authority", is_authority=False, addresses=addresses)
    tls = Tls(certificate=folder / "server.pem", key=folder / "server.key", authority=folder / "authority.pem")
    tls.authority.write_bytes(authority.public_bytes(PEM))
    tls.certificate.write_bytes(server.public_bytes(PEM))
    tls.key.write_bytes(
        key.private_bytes(PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    )
    return tls


def _certificate(name, key, signer, issuer, *, is_authority, addresses):
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if addresses:
        names = [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(signer, hashes.SHA256())


def _named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
