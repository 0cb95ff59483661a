"""Signed queries: ECDSA on P-256 with SHA-256, which every browser checks by itself.

    key = SigningKey.of(board)          the survey's, made at its first start and kept in its store
    key.public                          65 bytes as base64url: it stands in the link's fragment
    key.sign(text)                      r | s, 64 bytes as base64url

What is signed is the very text that travels: when it expires, the query with its law, and the words around it. Nobody
has to write JSON in one canonical way, and a respondent's page shows and answers nothing else.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from noisewise.collector.board import Board
from noisewise.errors import NoisewiseError

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
except ImportError:  # pragma: no cover
    raise NoisewiseError("A survey server needs more packages: pip install 'noisewise[survey]'.") from None

__all__ = ["SigningKey", "is_signed"]

HALF = 32  # bytes of r and of s
_ALGORITHM = ec.ECDSA(hashes.SHA256())


class SigningKey:
    """The private key of one survey."""

    def __init__(self, secret: int) -> None:
        self._key = ec.derive_private_key(secret, ec.SECP256R1())
        self.public = _text(
            self._key.public_key().public_bytes(
                serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
            )
        )

    @classmethod
    def of(cls, board: Board) -> SigningKey:
        """The key of a survey's board, made where there is none."""
        secret = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
        return cls(int(board.settle("signing-key", f"{secret:064x}"), 16))

    def sign(self, text: str) -> str:
        r, s = decode_dss_signature(self._key.sign(text.encode(), _ALGORITHM))
        return _text(r.to_bytes(HALF, "big") + s.to_bytes(HALF, "big"))


def is_signed(public: str, text: str, signature: str) -> bool:
    """Whether a text carries the signature of this public key: for respondents that are written in Python."""
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(public))
        halves = _bytes(signature)
        made = encode_dss_signature(int.from_bytes(halves[:HALF], "big"), int.from_bytes(halves[HALF:], "big"))
        key.verify(made, text.encode(), _ALGORITHM)
    except (ValueError, InvalidSignature):
        return False
    return True


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
