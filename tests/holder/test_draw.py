"""What is drawn is the law that is scored (A1b, B2), exactly, and nothing can seed it (B4)."""

import ast
import json
import math
import os
import pathlib
import secrets
import subprocess
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import noisewise
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.holder import draw
from noisewise.privacy.finite import FiniteLaw, RandomizedResponse, randomized_response
from noisewise.privacy.law import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialQuantile,
    RoundedGaussian,
    SmoothCauchy,
    SmoothLaplace,
)

FALSE_ALARM = 1e-6
SOURCE = pathlib.Path(noisewise.__file__).parent


# ---- goodness of fit with a sample size that makes a tenth visible ----


def critical_value(cells):
    return stats.chi2.isf(FALSE_ALARM, cells - 1)


def sample_size(true, wrongs):
    """Draws after which Pearson's test rejects each wrong law with probability > 1 - 1e-6.

    Drawn from q and tested against p, the statistic is close to noncentral chi-square with n sum (q-p)^2/p; the size is
    found from that, so the planted faults below fail to be caught at most once in a million runs (asked: power > .999).
    """
    n = 5000
    while True:
        shifts = [n * np.sum((true - wrong) ** 2 / wrong) for wrong in wrongs]
        power = [stats.ncx2.sf(critical_value(true.size), true.size - 1, shift) for shift in shifts]
        if min(power) > 1 - FALSE_ALARM and n * true.min() > 20:
            return n
        n = math.ceil(1.2 * n)
        assert n < 10**6, "these cells cannot tell the laws apart"


def rejects(counts, probabilities):
    expected = counts.sum() * probabilities
    return float(np.sum((counts - expected) ** 2 / expected)) > critical_value(counts.size)


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


# ---- finite laws ----


def counts_of(law, true, n, cells):
    return np.bincount(draw.answers(law, np.full(n, true)), minlength=cells)


@pytest.mark.parametrize("cells", [2, 3, 4, 9])
def test_randomized_responses_follow_their_rows_and_an_off_by_one_is_rejected(cells):
    law = randomized_response(cells, Fraction(1))
    odds = law.keep / law.other
    keep = odds / (odds + cells)  # planted: cells where cells - 1 belongs
    planted = RandomizedResponse(keep, cells)
    for true in {0, cells - 1}:
        row, wrong = (np.array([float(p) for p in rows[true]]) for rows in (law.rows(), planted.rows()))
        counts = counts_of(law, true, sample_size(row, [wrong]), cells)
        assert not rejects(counts, row)
        assert rejects(counts, wrong)


FINE = Fraction(2**64 - 3, 2**65)
LONG = Fraction(10**30 + 7, 10**31 + 9)
ROWS = {
    "halves": (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)),
    "zeros": (Fraction(0), Fraction(3, 5), Fraction(0), Fraction(2, 5), Fraction(0)),
    "64 bits": (FINE * 2, Fraction(3, 2**64), Fraction(0)),
    "65 bits": (FINE, 1 - FINE),
    "long": (LONG, 1 - LONG),
}


@pytest.mark.parametrize("name", ["halves", "zeros", "65 bits", "long"])
def test_finite_answers_and_single_rows_follow_their_probabilities(name):
    row = ROWS[name]
    cells = len(row)
    law = FiniteLaw((row, row[::-1]), tuple(range(cells)))
    support = np.array([float(p) for p in row]) > 0
    true = np.array([float(p) for p in row])[support]
    tilted = true * np.linspace(0.9, 1.1, true.size)
    n = sample_size(true, [tilted / tilted.sum()])
    for counts in (
        counts_of(law, 0, n, cells),
        counts_of(law, 1, n, cells)[::-1],
        np.bincount([draw.from_row(row) for _ in range(n)], minlength=cells),
    ):
        assert counts[~support].sum() == 0
        assert not rejects(counts[support], true)
        assert rejects(counts[support], tilted / tilted.sum())


def test_answers_keep_the_shape_and_the_order_of_the_question():
    certain = FiniteLaw(tuple(tuple(Fraction(int(i == j)) for j in range(3)) for i in (2, 0, 1)), (0, 1, 2))
    true = np.array([[0, 1, 2], [2, 1, 0]])
    assert draw.answers(certain, true).tolist() == [[2, 0, 1], [1, 0, 2]]
    assert draw.answers(certain, np.array([], dtype=int)).size == 0


def test_one_draw_from_a_row_is_exact_by_enumeration(monkeypatch):
    for row in (ROWS["halves"], ROWS["zeros"], (Fraction(1, 7), Fraction(2, 5), Fraction(16, 35))):
        unit = math.lcm(*(p.denominator for p in row))
        counts = [0] * len(row)
        for integer in range(unit):
            monkeypatch.setattr(draw.secrets, "randbelow", lambda _, value=integer: value)
            counts[draw.from_row(row)] += 1
        assert [Fraction(count, unit) for count in counts] == list(row)


def test_many_draws_are_exact_by_enumeration(monkeypatch):
    """Every 64-bit word pattern that matters, once: accepted words hit each index exactly as often as its numerator."""
    row = (Fraction(5, 37), Fraction(0), Fraction(30, 37), Fraction(2, 37))
    words = iter([*range(64), *range(37)])  # 37..63 are rejected and replaced; upper bits are masked away

    def every_word(size):
        return b"".join(
            (next(words) + (secrets.randbits(50) << 6)).to_bytes(8, sys.byteorder) for _ in range(size // 8)
        )

    monkeypatch.setattr(draw.secrets, "token_bytes", every_word)
    drawn = draw.answers(FiniteLaw((row,), (0, 1, 2, 3)), np.zeros(64, dtype=int))
    # 64 words give 37 indices, each integer below 37 once; the next 27 words are 0..26.
    assert np.bincount(drawn[:37], minlength=4).tolist() == [5, 0, 30, 2]
    assert np.bincount(drawn[37:], minlength=4).tolist() == [5, 0, 22, 0]


def test_the_finest_vectorised_denominator_is_not_rounded(monkeypatch):
    law = FiniteLaw((ROWS["64 bits"],), (0, 1, 2))
    words = [0, 2**64 - 4, 2**64 - 3, 2**64 - 1]
    monkeypatch.setattr(draw.secrets, "token_bytes", lambda _: np.array(words, dtype=np.uint64).tobytes())
    assert draw.answers(law, np.zeros(4, dtype=int)).tolist() == [0, 0, 1, 1]


# ---- e^-x weights ----


def test_a_weighted_index_is_where_a_known_uniform_falls(monkeypatch):
    """The bits are recorded and inverted again with 600-digit arithmetic: the index must agree every time."""
    recorded = []

    def record(size):
        recorded.append(os.urandom(size))
        return recorded[-1]

    monkeypatch.setattr(draw.secrets, "token_bytes", record)
    for case in range(300):
        size = 1 + case % 40
        lengths = [secrets.randbelow(2 ** (case % 61)) for _ in range(size)] + [1]
        exponents = [Fraction(secrets.randbelow(10**6), 10 ** (2 + case % 4)) for _ in range(size + 1)]
        recorded.clear()
        index = draw.weighted_index(lengths, exponents)
        with mp.workdps(600):
            known = b"".join(recorded)
            u = mp.mpf(int.from_bytes(known, "big")) / mp.mpf(2) ** (8 * len(known))
            weights = [
                n * mp.exp(-mp.mpf(x.numerator) / x.denominator) for n, x in zip(lengths, exponents, strict=True)
            ]
            below = mp.fsum(weights[:index]) / mp.fsum(weights)
            assert below <= u < below + weights[index] / mp.fsum(weights)


@pytest.mark.parametrize("exponent", [1, 50, 500, 900])
def test_a_weight_of_e_to_minus_500_has_its_chance_and_no_more(monkeypatch, exponent):
    """A uniform just below e^-x/(1 + e^-x) gives the rare index, one just above it the common one."""
    for factor, index in (("1e-5", 0), ("0.9999999999", 0), ("1.0000000001", 1), ("2", 1)):
        with mp.workdps(900):
            u = mp.exp(-exponent) / (1 + mp.exp(-exponent)) * mp.mpf(factor)
            bits = int(mp.floor(u * mp.mpf(2) ** 2560)) if u < 1 else 2**2560 - 1
        blocks = iter([bits.to_bytes(320, "big")[start : start + 64] for start in range(0, 320, 64)])
        monkeypatch.setattr(draw.secrets, "token_bytes", lambda _, blocks=blocks: next(blocks))
        assert draw.weighted_index([1, 1], [Fraction(exponent), Fraction(0)]) == index


def test_weighted_indices_follow_their_weights():
    lengths, exponents = [3, 0, 5, 2**40, 1], [Fraction(1), Fraction(0), Fraction(1, 2), Fraction(28), Fraction(0)]
    weights = np.array([n * math.exp(-x) for n, x in zip(lengths, exponents, strict=True)])
    tilted = weights * np.linspace(0.9, 1.1, 5)
    kept = weights > 0
    true, wrong = weights[kept] / weights.sum(), tilted[kept] / tilted.sum()
    n = sample_size(true, [wrong])
    counts = np.bincount([draw.weighted_index(lengths, exponents) for _ in range(n)], minlength=5)
    assert counts[1] == 0
    assert not rejects(counts[kept], true)
    assert rejects(counts[kept], wrong)


def test_thousands_of_weights_concentrate_where_they_should():
    # P(|index - 4000| > 300) is below e^-27 here, far under the false-alarm rate.
    drawn = draw.weighted_index([10**12] * 8000, [Fraction(abs(j - 4000), 10) for j in range(8000)])
    assert abs(drawn - 4000) <= 300


@pytest.mark.parametrize("exponent", [Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_a_trial_succeeds_with_probability_e_to_minus_the_exponent(exponent):
    true, *wrongs = (
        np.array([math.exp(-factor * float(exponent)), -math.expm1(-factor * float(exponent))])
        for factor in (1, 0.9, 1.1)
    )
    n = sample_size(true, wrongs)
    successes = sum(draw.bernoulli_exp(exponent) for _ in range(n))
    counts = np.array([successes, n - successes])
    assert not rejects(counts, true)
    assert all(rejects(counts, wrong) for wrong in wrongs)


def test_trials_at_the_ends_are_certain_and_a_negative_exponent_is_refused():
    assert all(draw.bernoulli_exp(Fraction(0)) for _ in range(100))
    assert not any(draw.bernoulli_exp(Fraction(1000)) for _ in range(100))
    with pytest.raises(InvalidArgument, match="exponent"):
        draw.bernoulli_exp(Fraction(-1, 2))


def test_whole_numbers_below_a_bound_are_uniform():
    uniform, tilted = np.full(7, 1 / 7), np.linspace(0.9, 1.1, 7) / 7
    counts = np.bincount([draw.uniform_below(7) for _ in range(sample_size(uniform, [tilted]))], minlength=7)
    assert not rejects(counts, uniform)
    assert rejects(counts, tilted)


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


# ---- nothing seeds it ----

DRAW_EVERYTHING = """
import json, os, random, sys
import numpy
random.seed(1); numpy.random.seed(1)
from fractions import Fraction
from noisewise.holder import draw
from noisewise.privacy.law import *
big = (2.0**40,) * 4, (1.0,) * 4
cells = RandomizedResponse(Fraction(1, 64), 64)
flat = [Fraction(1, 2**20)] * 2**10
def everything():
    return {
        "laplace": draw.noise(DiscreteLaplace(*big)),
        "gaussian": draw.noise(DiscreteGaussian(*big)),
        "rounded": draw.noise(RoundedGaussian(*big)),
        "records": draw.noise_per_record(DiscreteLaplace((2.0**40,), (1.0,)), 4).tolist(),
        "smooth-laplace": [draw.smooth_noise(SmoothLaplace(1, 0.1, 1.0), 2.0**40) for _ in range(4)],
        "smooth-cauchy": [draw.smooth_noise(SmoothCauchy(1, 0.1, 1.0), 2.0**40) for _ in range(4)],
        "answers": draw.answers(cells, numpy.zeros(40, dtype=int)).tolist(),
        "row": [draw.from_row([Fraction(1, 1024)] * 1024) for _ in range(20)],
        "weights": [draw.weighted_index([1] * 1024, [Fraction(1)] * 1024) for _ in range(20)],
    }
"""
ONCE = DRAW_EVERYTHING + "print(json.dumps(everything()))"
FORKED = (
    DRAW_EVERYTHING
    + """
everything()  # whatever state there is, the children inherit it
for _ in range(2):
    child = os.fork()
    if child == 0:
        print(json.dumps(everything()), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(json.dumps(everything()))
"""
)


def run(script):
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]


def repeated(runs):
    """The drawers that gave the same output in two runs (each output has over 100 bits of entropy)."""
    return {
        name for name in runs[0] for i, first in enumerate(runs) for second in runs[:i] if first[name] == second[name]
    }


def test_seeding_every_generator_does_not_repeat_the_noise():
    runs = run(ONCE) + run(ONCE)
    assert len(runs) == 2
    assert len(runs[0]) == 9
    assert repeated(runs) == set()
    assert repeated([runs[0], runs[0]]) == set(runs[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_repeat_its_parent():
    runs = run(FORKED)
    assert len(runs) == 3
    assert repeated(runs) == set()


GENERATORS = {"random", "default_rng", "RandomState", "SystemRandom", "urandom", "getrandom", "rvs", "uuid1", "uuid4"}
NOISE = {"secrets", "make_laplace", "make_gaussian", "make_noise", "make_geometric", "make_randomized_response"}
NOISE |= {"then_laplace", "then_gaussian", "then_noise", "then_geometric", "measurements"}
# The ledger's secret salt and the data set's random id are no noise.
SALT = {"holder/ledger.py", "holder/ledger_chain.py"}


def names_in(source):
    """Every attribute and imported name in a module, and every use of the module `secrets` as `secrets.use`."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
            if isinstance(node.value, ast.Name) and node.value.id == "secrets":
                names.add(f"secrets.{node.attr}")
        elif isinstance(node, ast.Import):
            names.update(f"{alias.name}.*" for alias in node.names if alias.asname)
            names.update(part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.update([*(node.module or "").split("."), *(alias.name for alias in node.names)])
    # A variable may be called `secrets`; only the imported module is a source of randomness.
    return names if "secrets" in names else {name for name in names if not name.startswith("secrets.")}


def misused(path, source):
    """Names a module may not mention: any other generator in the holder's wing, any noise source outside draw.py."""
    names, found = names_in(source), set()
    if path.startswith("holder/"):
        found |= names & GENERATORS
    if path != "holder/draw.py":
        allowed = {"secrets", "secrets.token_hex", "secrets.token_bytes"} if path in SALT else set()
        found |= {name for name in names if name in NOISE or name.startswith("secrets.")} - allowed
    return found


def test_no_other_module_draws_noise_and_no_other_generator_is_used():
    modules = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    assert "holder/draw.py" in modules
    assert {path: found for path, source in modules.items() if (found := misused(path, source))} == {}


@pytest.mark.parametrize(
    ("path", "planted"),
    [
        ("holder/draw.py", "import random"),
        ("holder/draw.py", "import numpy as np\nnoise = np.random.default_rng(0).normal()"),
        ("holder/curator.py", "from numpy.random import default_rng"),
        ("holder/curator.py", "from scipy import stats\nx = stats.norm.rvs()"),
        ("holder/table.py", "import os\nx = os.urandom(8)"),
        ("holder/curator.py", "import secrets\nx = secrets.randbits(8)"),
        ("holder/ledger.py", "import secrets\nx = secrets.randbelow(8)"),
        ("privacy/mechanism.py", "import opendp.prelude as dp\nm = dp.m.make_laplace(1)"),
        ("holder/ledger.py", "from secrets import randbelow"),
        ("holder/ledger.py", "import secrets as s"),
        ("likelihood/additive.py", "from secrets import token_bytes"),
        ("plan.py", "from opendp.measurements import make_gaussian"),
    ],
)
def test_the_source_scan_sees_a_planted_generator(path, planted):
    assert misused(path, planted)


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
