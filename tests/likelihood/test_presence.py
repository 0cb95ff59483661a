"""What is learnt where values were left out: against real records with holes, enumeration, and the complete cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.joining import joined
from noisewise.laws import additive_law
from noisewise.likelihood.stated_n import noisy_totals
from noisewise.models.base import ModelBase
from noisewise.models.protocol import model_for

x, y = nw.column("x"), nw.column("y")
NORMAL = nw.Normal(mean=stats.norm(0.5, 0.5), sd=0.3)


def schema(n, **columns):
    return nw.Schema({"x": nw.Bounded(0, 1), **columns}, n=n, neighbours="change-one", missing="leave-out")


def log_likelihood(release, population, theta):
    model = model_for(population, release)
    rows = {name: np.array([value]) for name, value in theta.items()}
    return float(model.joint_likelihood((release,)).integrated().log_likelihood(rows)[0])


@pytest.mark.parametrize("statistic", [nw.Mean(x), nw.Sum(x)], ids=str)
def test_the_likelihood_is_that_of_records_with_holes(statistic, rng):
    """Records drawn here, holes made here, sums and noise added here: none of the library's."""
    n, theta = 60, {"mean": 0.4, "present": 0.6}
    made = nw.plan(statistic, schema(n), guarantee=nw.PureDP(2))
    law = additive_law(made.law)
    values = np.clip(rng.normal(0.4, 0.3, (100_000, n)), 0, 1)
    is_there = rng.random(values.shape) < 0.6
    powers = {"mean(x)": (0, 1), "sum(x)": (1,)}[str(statistic)]
    sums = np.stack([(values**power * is_there).sum(axis=1) for power in powers], axis=1)
    near = (36 + 1.5 * law.scale[0], 14.5 + 0.5 * law.scale[-1])[-len(powers) :]  # a little off what is expected
    value = [round(v / s) for v, s in zip(near, law.step, strict=True)]
    release = nw.Release.of(made, value, dataset="d", ledger_head=None, simulated=True)
    logs = np.zeros(len(sums))
    for k in range(len(powers)):
        steps = np.abs(release.value[k] - np.rint(sums[:, k] / law.step[k])) / law.ratio[k]
        logs += -steps - np.log(2 * law.ratio[k])  # the discrete Laplace law of a fine lattice
    top = logs.max()
    weights = np.exp(logs - top)
    expected, error = top + np.log(weights.mean()), weights.std() / weights.mean() / np.sqrt(len(weights))
    assert error < 0.02
    # The normal law of 60 records takes the whole number of those present for continuous.
    assert log_likelihood(release, NORMAL, theta) == pytest.approx(expected, abs=5 * error + 0.1)


def test_a_count_is_binomial_in_the_chance_to_be_there_and_to_satisfy_it():
    made = nw.plan(nw.Count(x > 0.5), schema(30), guarantee=nw.PureDP(1))
    release = nw.simulate(made, NORMAL, at={"mean": 0.4, "present": 0.7}, seed=1)
    chance = 0.7 * stats.norm.sf(0.5, 0.4, 0.3)
    counts, law = np.arange(31), additive_law(made.law)
    decay = np.exp(-1 / law.ratio[0])
    noise = (1 - decay) / (1 + decay) * decay ** np.abs(release.value[0] - counts)
    expected = np.log(np.sum(stats.binom.pmf(counts, 30, chance) * noise))
    assert log_likelihood(release, NORMAL, {"mean": 0.4, "present": 0.7}) == pytest.approx(expected, abs=1e-8)


def test_without_noise_to_speak_of_the_posterior_is_that_of_the_complete_cases(rng):
    """The share present is a beta law, and the mean that of those present, by quadrature over their own sum."""
    n = 2000
    data = np.clip(rng.normal(0.5, 0.1, n), 0, 1)
    is_there = rng.random(n) < 0.8
    made = nw.plan(nw.Mean(x), schema(n), guarantee=nw.PureDP(10_000))
    value = made.statistic.value({"x": np.where(is_there, data, np.nan)}, made.schema)
    release = nw.Release.of(
        made, [round(v / s) for v, s in zip(value, made.lattice.step, strict=True)],
        dataset="complete-cases", ledger_head=None, simulated=True,
    )  # fmt: skip
    found = nw.infer(release, nw.Normal(mean=stats.norm(0.5, 0.5), sd=0.1), seed=1, progress=False)
    count = int(is_there.sum())
    share = stats.beta(1 + count, 1 + n - count)
    assert found.mean["present"] == pytest.approx(share.mean(), abs=0.1 * share.std())
    assert found.sd["present"] == pytest.approx(share.std(), rel=0.1)
    assert found.mean["mean"] == pytest.approx(data[is_there].mean(), abs=0.1 * 0.1 / np.sqrt(count))
    assert found.sd["mean"] == pytest.approx(0.1 / np.sqrt(count), rel=0.1)
    assert "missing at random" in str(found.verdict)


def test_a_posterior_with_a_share_present_is_saved_and_read(tmp_path):
    made = nw.plan(nw.Count(x > 0.5), schema(100), guarantee=nw.PureDP(1))
    release = nw.simulate(made, NORMAL, at={"mean": 0.4, "present": 0.7}, seed=1)
    found = nw.infer(release, NORMAL, seed=1, progress=False, draws=100)
    assert set(found.draws) == {"mean", "present"}
    found.save(tmp_path / "posterior")
    again = nw.Posterior.load(tmp_path / "posterior")
    assert set(again.model.free) == {"mean", "present"}
    assert again.releases == (release,)


def test_columns_that_are_needed_together_have_one_share_and_others_their_own():
    own = schema(50, y=nw.Bounded(0, 1))
    population = nw.Joint(x=nw.Normal(mean=stats.norm(0, 1), sd=1), y=nw.Normal(mean=0, sd=1))
    together = nw.plan(nw.Mean(x * y), own, guarantee=nw.PureDP(1))
    apart = nw.plan(nw.Mean(x, y), own, guarantee=nw.PureDP(1))
    assert model_for(population, [together]).free == ("x.mean", "present")
    assert model_for(population, [apart]).free == ("x.mean", "present[x]", "present[y]")
    known = nw.Joint(x=NORMAL, **{"present(x)": nw.Bernoulli(p=0.9)})
    assert model_for(known, [nw.plan(nw.Mean(x), schema(50), guarantee=nw.PureDP(1))]).free == ("mean",)


def test_what_takes_n_for_the_rows_behind_a_sum_refuses():
    own = schema(50, y=nw.Bounded(0, 1))
    made = nw.plan(nw.Moments(["x"], "y"), own, guarantee=nw.PureDP(1))
    release = nw.Release.of(made, [0] * 6, dataset="d", ledger_head=None, simulated=True)
    with pytest.raises(Unsupported, match="left out"):
        nw.infer(release, nw.LinearRegression(["x"], "y"), progress=False)
    normal = nw.MultivariateNormal(columns=["x", "y"], mean=[stats.norm(0, 1), 0], sd=[1, 1], correlation=0.5)
    both = nw.Release.of(
        nw.plan(nw.Mean(x, y), own, guarantee=nw.PureDP(1)), [0] * 4, dataset="d", ledger_head=None, simulated=True
    )
    with pytest.raises(Unsupported, match="share"):
        nw.infer(both, normal, progress=False)


LEVELS = nw.Levels(["a", "b"])
GROUPED = nw.Grouped("g", x=NORMAL)


@pytest.mark.parametrize("absent", ["x", "g"])
def test_groups_of_those_present_do_not_add_up_to_n(absent):
    """Whichever column may be absent, and however the model is asked, the others are records that nobody counts."""
    own = nw.Schema({"x": nw.Bounded(0, 1), "g": LEVELS}, n=50, neighbours="change-one", missing={absent: "leave-out"})
    made = nw.plan(nw.Mean(x, by="g"), own, guarantee=nw.GaussianDP(50))
    steps = [round(v / step) for v, step in zip((10, 4.0, 20, 9.0), made.law.step, strict=True)]
    release = nw.Release.of(made, steps, dataset="d", ledger_head=None, simulated=True)
    for found in (nw.infer(release, GROUPED, progress=False), GROUPED.posterior(release, progress=False)):
        assert abs(found.draws["size"].sum(axis=-1).mean() - 30) < 1
        assert abs(found.draws["present"].mean() - 31 / 52) < 0.02
        assert f"Missing values of {absent} were left out" in str(found.verdict)
    at = {"mean": [0.4, 0.6], "share": [0.5, 0.5], "present": 0.01}
    drawn = nw.simulate(made, nw.Grouped("g", x=NORMAL, names=["a", "b"]), at=at, seed=1)
    assert (drawn.value[0] * made.law.step[0] + drawn.value[2] * made.law.step[2]) < 12  # of 50: 0.5 expected


def test_a_model_reads_releases_of_those_present_only_if_it_says_so():
    """A model of one's own on the base, whose `observe` knows nothing of absent values."""

    class Unaware(ModelBase):
        free = ("p",)
        supports = {"p": None}  # noqa: RUF012

    made = nw.plan(nw.Mean(x), schema(50), guarantee=nw.PureDP(1))
    release = nw.Release.of(made, [0] * 2, dataset="d", ledger_head=None, simulated=True)
    with pytest.raises(Unsupported, match="Unaware takes n for it"):
        nw.infer(release, Unaware(), progress=False)


PRIVATE = nw.Schema(
    {"x": nw.Bounded(0, 1), "y": nw.Bounded(0, 1), "g": LEVELS},
    n_max=2000,
    neighbours="add-remove",
    missing={"x": "leave-out", "g": "leave-out"},
)
OF_THOSE_PRESENT = [nw.Mean(x), nw.Sum(x, x**2), nw.Count(x >= 0), nw.Histogram("g"), nw.Marginals(["g"]),
                    nw.Mean(x, by="g"), nw.Count(by="g"), nw.Moments(["x"], "y")]  # fmt: skip


@pytest.mark.parametrize("statistic", OF_THOSE_PRESENT, ids=str)
def test_a_count_of_those_present_is_no_total_of_everybody(statistic, rng):
    """1000 records, 6 of 10 present: n = 1000 is right, whatever the noisy counts of those present add up to."""
    present = rng.random((1000, 2)) < 0.6
    columns = {
        "x": np.where(present[:, 0], rng.random(1000), np.nan),
        "y": rng.random(1000),
        "g": np.where(present[:, 1], rng.integers(0, 2, 1000), -1),
    }
    made = nw.plan(statistic, PRIVATE, guarantee=nw.PureDP(20))
    steps = np.rint(statistic.value(columns, PRIVATE) / np.array(additive_law(made.law).step)).astype(int)
    release = nw.Release.of(made, steps.tolist(), dataset="d", ledger_head=None, simulated=True)
    assert joined((release,), 1000).warnings == ()
    assert noisy_totals(release) == ()
    with pytest.raises(InvalidArgument, match="n = 100 was stated"):  # fewer than are present
        joined((release,), 100)


def test_where_n_is_private_the_likelihood_is_that_of_records_with_holes(rng):
    """n = 6 stated; records, holes and noise are made here."""
    own = nw.Schema({"x": nw.Bounded(0, 1)}, n_max=50, neighbours="add-remove", missing="leave-out")
    made = nw.plan(nw.Mean(x), own, guarantee=nw.PureDP(4))
    law = additive_law(made.law)
    value = [round(published / step) for published, step in zip((3.4, 1.9), law.step, strict=True)]
    release = nw.Release.of(made, value, dataset="d", ledger_head=None, simulated=True)
    posterior = nw.infer(release, NORMAL, n=6, progress=False, seed=3, draws=2000, warmup=500)
    count = 2_000_000
    mean, share = rng.normal(0.5, 0.5, count), rng.random(count)
    there = rng.random((count, 6)) < share[:, None]
    seen = np.clip(rng.normal(mean[:, None], 0.3, (count, 6)), 0, 1) * there
    off = np.abs(there.sum(1) - 3.4) / law.scale[0] + np.abs(seen.sum(1) - 1.9) / law.scale[1]
    weight = np.exp(-off) / np.exp(-off).sum()
    size = 1 / np.sum(weight**2)
    for name, drawn in (("mean", mean), ("present", share)):
        centre = float(weight @ drawn)
        sd = float(np.sqrt(weight @ (drawn - centre) ** 2))
        error = sd * np.sqrt(1 / size + 1 / posterior.ess[name])
        assert abs(posterior.mean[name] - centre) < 0.03 * sd + 5.5 * error
        assert posterior.sd[name] == pytest.approx(sd, rel=0.1)
    assert "n = 6, as stated" in str(posterior.verdict)


def test_plans_can_be_chosen_among_and_told_about():
    population = nw.Normal(mean=stats.norm(0.5, 0.2), sd=0.3)
    made = [nw.plan(statistic, schema(400), guarantee=nw.PureDP(1)) for statistic in (nw.Mean(x), nw.Sum(x))]
    found = nw.choose(made, population, progress=False, draws=8)
    assert str(found.winner.statistic) == "mean(x)"
    assert nw.information(made[0], population, at={"mean": 0.5, "present": 0.7}).parameters == ("mean", "present")


@pytest.mark.slow
def test_posteriors_of_those_present_are_calibrated():
    population = nw.Bernoulli(p=stats.uniform(0, 1))
    own = nw.Schema({"y": nw.Levels(["no", "yes"])}, n=60, neighbours="change-one", missing="leave-out")
    made = nw.plan(nw.Mean(y.equals("yes")), own, guarantee=nw.PureDP(1))
    found = nw.calibrate(made, population, trials=100, seed=1, likelihood="clt", progress=False)
    assert found.is_calibrated
