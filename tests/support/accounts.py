"""Ledgers to test with: spending without records, and an account with every kind of entry."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

from noisewise.holder.ledger import Account, Ledger
from noisewise.privacy.guarantee import Guarantee, PureDP

FINGERPRINT = "v1:4000:canary-fingerprint"
HALF = Fraction(1, 2)


def produce(account: Account) -> bytes:
    """A release as the door writes it, with random content."""
    content = {
        "dataset": account.dataset,
        "ledger_head": account.head,
        "simulated": False,
        "value": os.urandom(8).hex(),
    }
    return json.dumps(content).encode()


def spend(ledger: Ledger, guarantee: Guarantee, part: tuple[Fraction, Fraction] | None = None) -> bytes:
    return ledger.release_once(os.urandom(16), guarantee, part, FINGERPRINT, produce)


def filled(path: Path) -> Ledger:
    """A ledger with every kind of entry and every kind of cell."""
    ledger = Ledger.open(path, PureDP(4))
    spend(ledger, PureDP(1))
    spend(ledger, PureDP(1), (Fraction(0), HALF))
    ledger.replace_records()
    spend(ledger, PureDP(1))
    return ledger
