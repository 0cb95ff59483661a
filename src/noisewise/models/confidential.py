"""The confidential statistic behind a release, for models whose statistic is normal given the parameters.

    T ~ N(mean, covariance),     y = T + noise:      T given y is normal for Gaussian noise,
drawn as T + gain (y - T - noise) at fresh T and noise. Laplace noise of scale b is Gaussian with a variance w of its
own (Andrews & Mallows 1974),
    1/w | T ~ InverseGaussian(1/(b |y - T|), 1/b^2),       T | w normal,
and a few turns of these two draw T. Only what the method's own law says is used; nothing here can see a record.
"""

from __future__ import annotations

import numpy as np

from noisewise.likelihood.normal_laplace import draw_mixing
from noisewise.types import Floats

__all__ = ["TURNS", "behind_noise"]

TURNS = 50


def behind_noise(
    rng: np.random.Generator,
    mean: Floats,
    covariance: Floats,
    observed: Floats,
    *,
    variance: Floats,
    laplace: Floats | None,
) -> Floats:
    """One draw of T for each row of `mean` (K, d), with one covariance (d, d) or one for each row (K, d, d).

    `variance` (d,) is the noise's; `laplace` its scale (d,) where the noise is Laplace, else None.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    now = np.broadcast_to(variance, mean.shape)
    for _ in range(1 if laplace is None else TURNS):
        believed = mean + (root @ rng.standard_normal(mean.shape)[..., None])[..., 0]
        noise = rng.standard_normal(mean.shape) * np.sqrt(now)
        total = covariance + now[:, :, None] * np.eye(mean.shape[1])
        pull = np.linalg.solve(total, (observed - believed - noise)[..., None])
        drawn = np.asarray(believed + (covariance @ pull)[..., 0])
        if laplace is not None:
            now = draw_mixing(rng, observed - drawn, laplace)
    return drawn
