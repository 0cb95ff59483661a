"""What is drawn is the law that is scored (A1b, B2), and what is no law is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from goodness_of_fit import FALSE_ALARM, rejects, sample_size
from scipy import stats

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.holder import draw
from noisewise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialQuantile,
    RoundedGaussian,
    SmoothCauchy,
    SmoothLaplace,
)
from noisewise.laws.finite import RandomizedResponse

# ---- goodness of fit with a sample size that makes a tenth visible ----


def cut_points(cdf):
    """Integers that cut a lattice law into at most 24 cells of about equal probability."""
    cuts = []
    for level in np.arange(1, 24) / 24:
        low, high = -(2**120), 2**120  # cdf(low) < level <= cdf(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if cdf(middle) < level else (low, middle)
        if not cuts or high > cuts[-1]:
            cuts.append(high)
    while cuts and 1 - float(cdf(cuts[-1])) < 0.01:
        cuts.pop()
    return np.array(cuts, dtype=float)


def cell_probabilities(cdf, cuts):
    return np.diff([0.0, *np.asarray(cdf(cuts)), 1.0])


def fits_its_law_and_no_law_a_tenth_off(draws, cdf_at, ratio):
    """`draws(n)` follows the lattice law cdf_at(ratio), and the same sample rejects a scale 10 % smaller or larger."""
    cuts = cut_points(cdf_at(ratio))
    true = cell_probabilities(cdf_at(ratio), cuts)
    wrongs = [cell_probabilities(cdf_at(factor * ratio), cuts) for factor in (0.9, 1.1)]
    sample = draws(sample_size(true, wrongs))
    counts = np.bincount(np.searchsorted(cuts, sample, side="left"), minlength=true.size)
    assert not rejects(counts, true)
    for wrong in wrongs:
        assert rejects(counts, wrong), "a scale 10 % off must be caught"


@pytest.mark.parametrize("ratio", [0.5, 1.0, 37.3, 2.0**40])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian, RoundedGaussian])
def test_additive_noise_follows_the_law_that_is_scored(kind, ratio):
    fits_its_law_and_no_law_a_tenth_off(
        lambda n: draw.noise_per_record(kind((ratio / 4,), (0.25,)), n),
        lambda r: kind((r,), (1.0,)).cdf,
        ratio,
    )


@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian, RoundedGaussian])
def test_noise_vectors_follow_the_law_of_every_component(kind):
    # In each block of four, components 0, 1 and 3 share a ratio and are drawn together; component 2 has its own.
    law = kind((6.0, 12.0, 30.0, 3.0) * 100, (1.0, 2.0, 1.0, 0.5) * 100)

    def component(j):
        return lambda n: np.concatenate([draw.noise(law)[j::4] for _ in range(math.ceil(n / 100))])

    for j in (1, 2):
        fits_its_law_and_no_law_a_tenth_off(component(j), lambda r: kind((r,), (1.0,)).cdf, law.ratio[j])


@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian, RoundedGaussian])
def test_components_of_one_vector_are_independent(kind):
    law = kind((50.0, 50.0, 80.0), (1.0, 1.0, 1.0))
    signs = np.sign([draw.noise(law) for _ in range(4000)])
    limit = stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(4000)  # a sum of 4000 independent signs
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.sum(signs[:, i] * signs[:, j])) < limit
        assert np.sum(signs[:, i] * signs[:, i]) > limit, "the same test sees a repeated component"


@pytest.mark.parametrize("ratio", [0.3, 3.0, 2.0**40 / 3])
@pytest.mark.parametrize("kind", [SmoothLaplace, SmoothCauchy])
def test_smooth_noise_follows_the_law_that_is_scored(kind, ratio):
    law = kind(alpha=Fraction(1, 3), beta=0.1, step=2.0**-8)
    scale = ratio / 3 * 2.0**-8
    fits_its_law_and_no_law_a_tenth_off(
        lambda n: np.array([draw.smooth_noise(law, scale) for _ in range(n)], dtype=float),
        lambda r: lambda k: law.cdf(k, smooth_scale=r / 3 * 2.0**-8),
        ratio,
    )


@pytest.mark.parametrize(
    ("drawer", "distribution"),
    [
        (draw.rounded_gaussian, stats.norm),
        (draw.rounded_laplace, stats.laplace),
        (draw.rounded_cauchy, stats.cauchy),
    ],
)
@pytest.mark.parametrize("ratio", [Fraction(2, 7), 2.0**70, Fraction(10**30, 3)])
def test_rounded_draws_follow_the_continuous_law(drawer, distribution, ratio):
    """scipy's distributions are the oracle; ratios may be any Fraction and pass 2^63."""
    fits_its_law_and_no_law_a_tenth_off(
        lambda n: np.array([drawer(ratio) for _ in range(n)], dtype=float),
        lambda r: lambda k: distribution.cdf((np.asarray(k, dtype=float) + 0.5) / r),
        float(ratio),
    )


# ---- bits are added exactly when they are needed ----


@pytest.mark.parametrize(
    ("next_word", "rounded"), [(0x00000000, 0), (0xAAAAAAAA, None), (0xAAAAAAAB, 1), (0xFFFFFFFF, 1)]
)
def test_a_rounding_on_the_edge_is_settled_by_further_bits(monkeypatch, next_word, rounded):
    """3x rounds up from x = 1/6 = 0.2AAAAAAA AAAAAAAA... in base 16: the first word of x leaves it open."""
    x, beyond_x, sign = 0x2AAAAAAA, 0xFFFFFFFF, 0x00000000
    words = [x, beyond_x, next_word, *([0xAAAAAAAB] if rounded is None else []), sign]
    block = b"".join(word.to_bytes(4, "big") for word in words).ljust(64, b"\0")
    monkeypatch.setattr(draw.secrets, "token_bytes", lambda _: block)
    assert draw.rounded_laplace(3) == (1 if rounded is None else rounded)


# ---- refusals ----


def test_no_noise_is_refused():
    law = DiscreteLaplace((1.0,), (1.0,))
    object.__setattr__(law, "scale", (0.0,))  # no constructor allows it
    with pytest.raises(InvalidArgument, match="no noise is no privacy"):
        draw.noise(law)
    with pytest.raises(InvalidArgument, match="no noise is no privacy"):
        draw.noise_per_record(law, 3)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, None, True, "1", 10**400])
def test_bad_ratios_are_refused_and_not_shown(bad):
    for drawer in (draw.rounded_gaussian, draw.rounded_laplace, draw.rounded_cauchy):
        with pytest.raises(InvalidArgument, match="ratio"):
            drawer(bad)
    with pytest.raises(InvalidArgument, match="smooth_scale") as refused:
        draw.smooth_noise(SmoothCauchy(1, 0.1, 1.0), bad)
    assert refused.value.argument == "smooth_scale"


def test_a_secret_scale_is_in_no_error():
    with pytest.raises(InvalidArgument) as refused:
        draw.smooth_noise(SmoothLaplace(1, 0.1, 1.0), -31337.0)
    assert "31337" not in str(refused.value) + repr(refused.value.fields)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(Unsupported):
        draw.noise(SmoothCauchy(1, 0.1, 1.0))
    with pytest.raises(Unsupported):
        draw.noise_per_record(ExponentialQuantile(1, 1.0), 3)
    with pytest.raises(Unsupported):
        draw.smooth_noise(DiscreteLaplace((1.0,), (1.0,)), 1.0)
    with pytest.raises(InvalidArgument, match="one component"):
        draw.noise_per_record(DiscreteLaplace((1.0, 1.0), (1.0, 1.0)), 3)
    with pytest.raises(InvalidArgument, match="count"):
        draw.noise_per_record(DiscreteLaplace((1.0,), (1.0,)), -1)
    assert draw.noise_per_record(RoundedGaussian((1.0,), (1.0,)), 0).shape == (0,)


@pytest.mark.parametrize(
    ("lengths", "exponents", "argument"),
    [
        ([], [], "lengths"),
        ([0, 0], [Fraction(0)] * 2, "lengths"),
        ([-1, 2], [Fraction(0)] * 2, "lengths"),
        ([1.5, 2], [Fraction(0)] * 2, "lengths"),
        ([1], [Fraction(0)] * 2, "exponents"),
        ([1], [Fraction(-1)], "exponents"),
        ([1], [0.5], "exponents"),
    ],
)
def test_bad_weights_are_refused_by_name(lengths, exponents, argument):
    with pytest.raises(InvalidArgument) as refused:
        draw.weighted_index(lengths, exponents)
    assert refused.value.argument == argument


@pytest.mark.parametrize("row", [[], [Fraction(1, 2)], [Fraction(3, 2), Fraction(-1, 2)]])
def test_rows_that_are_no_law_are_refused(row):
    with pytest.raises(InvalidArgument, match="row"):
        draw.from_row(row)


@pytest.mark.parametrize("true", [[-1], [4], [0.5], [True]])
def test_cells_outside_the_law_are_refused(true):
    with pytest.raises(InvalidArgument, match="true"):
        draw.answers(RandomizedResponse(Fraction(1, 2), 4), np.array(true))
