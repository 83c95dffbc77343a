"""A certificate authority of the developer's machine, and the broker's certificate from it."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

AUTHORITY = "ca.pem"
_SERVER = "server.pem"
_LIFE = timedelta(days=30)
#: A certificate that ends sooner is made anew.
_LEFT = timedelta(days=1)


def tls_context(folder: Path, name: str = "") -> ssl.SSLContext:
    """Return what the broker answers TLS with. Its files are made where the folder has none that last.

    `name`: one more name of the broker, for clients that know Azure's names alone.
    """
    if not _lasts(folder, name):
        _make(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / _SERVER)
    return context


def _lasts(folder: Path, name: str) -> bool:
    from cryptography import x509  # noqa: PLC0415 - only TLS needs it

    try:
        found = [x509.load_pem_x509_certificate((folder / name).read_bytes()) for name in (AUTHORITY, _SERVER)]
    except (OSError, ValueError):
        return False
    names = found[1].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if name and name not in names.get_values_for_type(x509.DNSName):
        return False
    return min(one.not_valid_after_utc for one in found) > datetime.now(UTC) + _LEFT


def _make(folder: Path, name: str) -> None:
    from cryptography import x509  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415 - as above

    now = datetime.now(UTC)
    root_key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def begun(name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.CertificateBuilder:
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
        )
        return (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("servicebus_local authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + _LIFE)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), critical=False)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    key_cert_sign=is_authority,
                    crl_sign=is_authority,
                    decipher_only=False,
                    **usage,
                ),
                critical=True,
            )
        )

    names = [x509.DNSName(one) for one in ("localhost", name) if one]
    here = [*names, *(x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", "::1"))]
    root = begun("servicebus_local authority", root_key, is_authority=True).sign(root_key, hashes.SHA256())
    own = (
        begun("localhost", own_key, is_authority=False)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = own_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / _SERVER, own.public_bytes(pem) + secret)
    # Last: who finds it finds the other as well. The authority's own key is kept nowhere.
    _write(folder / AUTHORITY, root.public_bytes(pem))


def _write(file: Path, content: bytes) -> None:
    draft = file.with_suffix(".draft")
    draft.touch(mode=0o600)
    draft.write_bytes(content)
    draft.replace(file)
