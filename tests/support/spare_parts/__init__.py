"""A model that lives outside the package: one folder, and the one line below."""

from noisewise.models.registry import register_model


def _coin() -> type:
    from spare_parts.coin import Coin

    return Coin


register_model("Coin", "coin", _coin)
