"""The sentence that opens a summary: a gallery, word by word, and what it must never leave out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from drawn_posteriors import X, posterior, release, schema
from scipy import stats

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.inference.law_draws import LawDraws
from noisewise.inference.posterior import Posterior
from noisewise.inference.sentence import price_words
from noisewise.inference.verdict import IndependentDraws, Verdict, Words

K = 400
NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=29)


def around(centre: float, half: float) -> np.ndarray:
    """Draws whose mean is the centre, and whose 90 % interval is centre -+ half."""
    return centre + half / 0.9 * np.linspace(-1, 1, K)


MEAN = {"mean": around(50.26, 0.85)}
PLAIN = "The mean income is 50.3 thousand EUR, 90 % interval 49.4 to 51.1, from 4000 records at epsilon = 1."


def test_the_sentence_of_the_readme():
    one = posterior(MEAN, NORMAL, [release()])
    assert one.sentence == PLAIN
    assert one.summary().startswith("The mean income is 50.3 thousand EUR, 90 % interval 49.4 to 51.1, from 4000")
    assert one.summary().split("\n\n")[1].startswith("parameter")


def test_without_a_unit_a_release_or_a_column_nothing_is_made_up():
    assert posterior(MEAN, NORMAL, [release(of=schema(unit=None))]).sentence == PLAIN.replace(" thousand EUR", "")
    assert posterior(MEAN, NORMAL).sentence == "The mean is 50.3, 90 % interval 49.4 to 51.1."


PRICES = {
    "zcdp": ([release(price=nw.ZeroConcentratedDP("0.5"))], "at rho = 0.5."),
    "gdp": ([release(price=nw.GaussianDP(2))], "at mu = 2."),
    "approx": ([release(price=nw.ApproxDP(1, "1e-6"))], "at epsilon = 1, delta = 1e-06."),
    "twice": (
        [release(), release(nw.Mean(X**2), price=nw.PureDP("0.5"))],
        "from 4000 records at epsilon = 1.5 in all.",
    ),
    "of two kinds": (
        [release(), release(nw.Mean(X**2), price=nw.ZeroConcentratedDP(1))],
        "from 4000 records at epsilon = 1 and rho = 1.",
    ),
    "holders": (
        [release(), release(dataset="b", of=schema(n=1000))],
        "from 5000 records of 2 data sets at epsilon = 1 each.",
    ),
    "holders at two prices": (
        [release(), release(dataset="b", price=nw.PureDP(2))],
        "from 8000 records of 2 data sets at epsilon = 1 and epsilon = 2.",
    ),
    "parts": (
        [release(part=(0, "1/2")), release(part=("1/2", 1))],
        "from 4000 records at epsilon = 1.",
    ),
}


@pytest.mark.parametrize("case", PRICES)
def test_records_and_prices_are_counted_as_they_were_paid(case):
    releases, ending = PRICES[case]
    assert posterior(MEAN, NORMAL, releases).sentence.endswith(ending)


def test_many_prices_are_not_all_listed():
    several = [release(dataset=str(k), price=nw.PureDP(k + 1)) for k in range(5)]
    assert price_words(several) == " at epsilon = 1 and 4 other prices"


def test_an_assumed_n_is_said_to_be_assumed():
    columns = {"income": nw.Bounded(0, 250, unit="thousand EUR")}
    of = nw.Schema(columns, n_max=10_000, neighbours="add-remove")
    one = posterior(MEAN, NORMAL, [release(nw.Sum(X), of=of)], stated_n=4000)
    assert one.sentence == PLAIN.replace("4000 records at", "4000 records, as assumed, at")


def test_simulated_records_are_said_to_be_simulated():
    made = nw.simulate(nw.plan(nw.Mean(X), schema(), guarantee=nw.PureDP(1)), NORMAL, at={"mean": 50}, seed=1)
    assert posterior(MEAN, NORMAL, [made]).sentence == PLAIN.replace("4000 records", "4000 records (simulated)")


def test_a_warning_stands_before_the_number():
    warned = Verdict(Words("Given."), warnings=("The released sum contradicts the population.",))
    one = posterior(MEAN, NORMAL, [release()], verdict=warned)
    first, second = one.sentence.split("\n")
    assert first == "Caution: The released sum contradicts the population."
    assert second == "As computed, " + PLAIN[0].lower() + PLAIN[1:]
    assert one.summary().startswith("Caution: The released sum contradicts")


def test_draws_that_are_not_to_be_trusted_are_no_answer_by_themselves():
    broken = IndependentDraws(draws=K, chains=2, error=0.5, evaluations=9, non_finite=(), rhat=1.0, smallest_ess=K)
    text = posterior(MEAN, NORMAL, [release()], verdict=Verdict(broken)).sentence
    assert text.startswith("Caution: The density is too rough for quadrature")
    assert "\nAs computed, the mean income is" in text


def test_what_ignores_the_noise_says_so():
    text = posterior(MEAN, NORMAL, [release()], method="naive").sentence
    assert text.startswith("If the noise is ignored, the mean income is 50.3")


def test_a_point_is_said_to_be_one():
    point = Posterior.point(
        {"mean": 50.26}, method="somehow", how="", population=NORMAL, releases=[release()], instead="exact"
    )
    assert point.sentence == "By somehow, the mean income is 50.26 thousand EUR, from 4000 records at epsilon = 1."


def test_levels_several_columns_and_whole_numbers():
    of = schema(smoker=nw.Levels(["no", "yes"]), region=nw.Levels(["north", "south", "west"]), visits=nw.Bounded(0, 50))
    draws = {
        "income.mean": around(50.26, 0.85),
        "smoker.p": around(0.231, 0.013),
        "region.p": np.stack([around(0.2, 0.01), around(0.5, 0.02), around(0.3, -0.03)], axis=1),
        "visits.rate": around(3.4, 0.2),
    }
    population = nw.Joint(
        income=NORMAL,
        smoker=nw.Bernoulli(p=stats.beta(1, 1)),
        region=nw.Categorical(p=stats.dirichlet([1, 1, 1])),
        visits=nw.Poisson(rate=stats.gamma(2)),
    )
    assert posterior(draws, population, [release(of=of)]).sentence == (
        "The mean income is 50.3 thousand EUR, 90 % interval 49.4 to 51.1; the share of smoker = yes is 23.1 %, 90 % "
        "interval 21.8 to 24.4; the commonest region is south, with 50.0 %, 90 % interval 48.0 to 52.0; the mean "
        "visits is 3.40, 90 % interval 3.20 to 3.60, from 4000 records at epsilon = 1."
    )


def test_a_regression_says_what_one_more_goes_with():
    columns = {
        "age": nw.Bounded(18, 90, unit="years"),
        "bmi": nw.Bounded(10, 60),
        "smoker": nw.Levels(["no", "yes"]),
        "cost": nw.Bounded(0, 99, unit="thousand EUR"),
    }
    of = nw.Schema(columns, n=5000, neighbours="change-one")
    smoker = nw.column("smoker").equals("yes")
    model = nw.LinearRegression(["age", "bmi", smoker], "cost")
    draws = {
        "intercept": around(3, 1),
        "age": around(0.52, 0.11),
        "bmi": around(-0.3, 0.02),
        "equals(smoker, 'yes')": around(4.1, 0.3),
        "noise_variance": around(25, 1),
    }
    made = release(nw.Moments(["age", "bmi", smoker], "cost"), of=of, price=nw.GaussianDP(1))
    one = posterior(draws, model, [made])
    assert one.sentence == (
        "One more year of age goes with +0.52 thousand EUR of cost, 90 % interval 0.41 to 0.63; one more unit of bmi "
        "goes with -0.300 thousand EUR of cost, 90 % interval -0.320 to -0.280; smoker = yes goes with +4.10 thousand "
        "EUR of cost, 90 % interval 3.80 to 4.40, from 5000 records at mu = 1."
    )
    rows = {(row.quantity, row.column): row.unit for row in one.answers()}
    assert rows["coefficient", "age"] == "thousand EUR per year"
    assert rows["coefficient", "bmi"] == "thousand EUR per unit"
    assert rows["coefficient", "equals(smoker, 'yes')"] == "thousand EUR"
    assert rows["intercept", "cost"] == rows["residual sd", "cost"] == "thousand EUR"
    np.testing.assert_allclose(one.answers()["residual sd"].draws, np.sqrt(draws["noise_variance"]))
    assert "age (thousand EUR per year)" in one.summary()


class GroupedModel:
    """A model with groups, as far as answers ask for it."""

    described = "groups"

    def __init__(self, means, model):
        self.means, self.model = means, model

    def sources(self, theta, releases):
        return tuple(
            LawDraws("income", NORMAL, {"mean": values}, len(values), "thousand EUR", group)
            for group, values in self.means.items()
        )


def grouped(means, monkeypatch):
    one = posterior(MEAN, NORMAL, [release()])
    made = GroupedModel(means, one.model)
    monkeypatch.setattr(type(one.model), "answer_sources", lambda _, theta, releases: made.sources(theta, releases))
    return one


def test_groups_are_told_from_the_highest_to_the_lowest(monkeypatch):
    means = {"north": around(48, 2), "south": around(52.2, 2), "west": around(50, 1)}
    one = grouped(means, monkeypatch)
    assert one.sentence == (
        "The mean income is highest in south (52.2 thousand EUR, 90 % interval 50.2 to 54.2) and lowest in north (48.0 "
        "thousand EUR, 90 % interval 46.0 to 50.0), from 4000 records at epsilon = 1.\n"
        "  south: 52.2 thousand EUR, 90 % interval 50.2 to 54.2\n"
        "  west: 50.0 thousand EUR, 90 % interval 49.0 to 51.0\n"
        "  north: 48.0 thousand EUR, 90 % interval 46.0 to 50.0"
    )
    assert one.rank("mean").groups == ("south", "west", "north")
    assert one.contrast("mean", "south", "north").estimate == pytest.approx(4.2)
    assert one.answers()["mean", "west"].estimate == pytest.approx(50)
    many = grouped({f"g{k}": around(k, 1) for k in range(9)}, monkeypatch)
    assert "\n" not in many.sentence
    assert many.sentence.startswith("The mean income is highest in g8 (8.0 thousand EUR")


def test_no_group_is_called_the_highest_that_may_well_not_be(monkeypatch, rng):
    """Draws of the groups are independent here: south is the highest in all, 80 and 63 of 100 draws."""
    for gap, sure in ((3.8, True), (1.2, False), (0.5, False)):
        means = {"north": rng.permutation(around(48, 1)), "south": rng.permutation(around(48 + gap, 2))}
        text = grouped(means, monkeypatch).sentence
        share = np.mean(means["south"] > means["north"])
        assert (share >= 0.95) == sure
        assert ("is highest in south" in text) == sure
        assert ("which is highest or lowest is not sure: estimates go from north (48" in text) != sure
    alone = {"north": rng.permutation(around(10, 1)), "south": around(50, 2), "west": rng.permutation(around(50.1, 2))}
    text = grouped(alone, monkeypatch).sentence
    assert text.startswith("The mean income is lowest in north (10")
    assert "highest" not in text


def test_a_model_without_answers_is_refused_by_name_and_its_summary_has_no_sentence(monkeypatch):
    one = posterior(MEAN, NORMAL, [release()])

    def lacks(self, theta, releases):
        raise self._lacks("answer_sources", "answers in people's terms")

    monkeypatch.setattr(type(one.model), "answer_sources", lacks)
    with pytest.raises(Unsupported, match="PopulationModel has no answer_sources: answers in people's terms"):
        one.answers()
    assert one.sentence == ""
    assert one.summary().startswith("parameter")


def test_a_number_that_does_not_exist_is_not_told_as_one():
    population = nw.LocationScale(stats.cauchy, loc=stats.norm(0, 9), scale=2)
    text = posterior({"loc": around(50, 1)}, population, [release()]).sentence
    assert text.startswith("The median income is 50.0 thousand EUR, 90 % interval 49.0 to 51.0")
    assert "nan" not in text


def test_units_stand_in_the_table_of_parameters_and_on_the_axes():
    from noisewise.inference.summary import plot_data

    one = posterior(
        {"mean": around(50, 1), "sd": around(9, 1)},
        nw.Normal(mean=stats.norm(0, 9), sd=stats.halfnorm(scale=9)),
        [release()],
    )
    table = one.summary().split("\n\n")[1]
    assert "mean (thousand EUR)" in table
    assert "sd (thousand EUR)" in table
    assert [entry["unit"] for entry in plot_data(one)] == ["thousand EUR", "thousand EUR"]
    rate = posterior({"rate": around(0.1, 0.01)}, nw.Exponential(rate=stats.gamma(2)), [release()])
    assert "thousand EUR" not in rate.summary().split("\n\n")[1]


# ---- evidence ----


def test_the_evidence_is_a_number_or_says_why_not():
    assert posterior(MEAN, NORMAL, [release()], log_evidence=-3.25).evidence == -3.25
    walked = posterior(MEAN, NORMAL, [release()], method="mh", how="a random walk")
    with pytest.raises(Unsupported, match="method='mh' draws from the posterior without its normalising constant"):
        _ = walked.evidence
    lost = posterior(MEAN, NORMAL, [release()], how="slice sampling of 3 parameters")
    with pytest.raises(Unsupported, match="found by slice sampling of 3 parameters"):
        _ = lost.evidence
    point = Posterior.point({"mean": 1}, method="map", how="", population=NORMAL, releases=[], instead="exact")
    with pytest.raises(Unsupported, match=r"gives a point.*Use method='exact'"):
        _ = point.evidence


def test_old_files_have_sentences_too():
    for path in sorted((Path(__file__).parents[1] / "golden").glob("posterior-1-*.npz")):
        found = Posterior.load(path)
        assert found.summary()
        assert isinstance(found.sentence, str)
        if not found.is_point and found.population is not None:
            assert len(found.answers()) > 0
