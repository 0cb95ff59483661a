"""The report: the answer first, everything escaped and well-formed, nothing fetched, whatever the names hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.html import Picture, Section, Table, page, pieces
from noisewise.inference.posterior import Posterior
from noisewise.report.posterior_page import answer_tables, chance_words, posterior_page
from noisewise.report.words import plain_number

NASTY = "<img src=x onerror=alert(1)> & $x_1$"
VOID = {"meta", "img", "source", "br"}
GAMMA = nw.Gamma(shape=stats.halfnorm(scale=10), rate=stats.halfnorm(scale=0.5))
ONE_UNKNOWN = nw.Normal(mean=stats.norm(50, 50), sd=29)
INCOME = nw.column("income")
X, NUMBERS = nw.column("x"), nw.Bounded(0, 40)
TRUTH = {"shape": 3.0, "rate": 1 / 17}


class Parsed(HTMLParser):
    """A page read strictly: every tag closed in its place; its tags, texts by tag, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.fetched: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)


def released(*features: object, name: str = "income", unit: str = "thousand EUR") -> nw.Release:
    schema = nw.Schema({name: nw.Bounded(0, 250, unit=unit)}, n=4000, neighbours="change-one")
    plan = nw.plan(nw.Mean(*features), schema, guarantee=nw.PureDP(1))
    return nw.simulate(plan, GAMMA, at=TRUTH, seed=1)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return nw.infer(released(INCOME, INCOME**2), GAMMA, seed=1, progress=False)


def test_the_answer_stands_first_and_the_diagnostics_last(posterior: Posterior) -> None:
    found = Parsed(posterior_page(posterior))
    (headline,) = found.texts["h1"]
    assert re.match(r"The mean income is [\d.]+ thousand EUR, 90 % interval [\d.]+ to [\d.]+, from 4000", headline)
    assert found.tags.index("img") < found.tags.index("h2")
    headings = found.texts["h2"]
    assert headings[0] == "The answers"
    assert headings.index("How sure, and why") < headings.index("What was released, and at which price")
    assert headings[-1] == "How it was computed"


def test_tables_are_tables_and_no_terminal_text_is_left(posterior: Posterior) -> None:
    found = Parsed(posterior_page(posterior))
    assert "pre" not in found.tags
    assert {"mean", "sd", "median"} <= set(found.texts["td"])
    assert "thousand EUR" in found.texts["td"]


def test_nothing_is_fetched_and_dark_print_and_narrow_screens_are_thought_of(posterior: Posterior) -> None:
    text = posterior_page(posterior)
    found = Parsed(text)
    assert found.fetched
    assert all(link.startswith("data:image/png;base64,") for link in found.fetched)
    assert not re.search(r"https?:|url\(|@import|<script|<link", text)
    assert "width=device-width" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert found.tags.count("source") >= 2  # the answer's picture and the parameters', drawn again for a telephone


def test_names_and_units_of_others_are_text() -> None:
    release = released(nw.column(NASTY), name=NASTY, unit="<u>EUR</u>")
    found = nw.infer(release, ONE_UNKNOWN, seed=1, draws=200, progress=False)
    text = posterior_page(found)
    parsed = Parsed(text)
    assert "<img src=x" not in text
    assert "<u>" not in text
    assert NASTY in parsed.texts["h1"][0]
    assert NASTY in Parsed(found._repr_html_()).texts["h2"][0]


def test_a_model_without_laws_of_columns_is_drawn_once_and_no_prior_is_told_of_that_is_not_drawn() -> None:
    schema = nw.Schema({"age": nw.Bounded(0, 9), "cost": nw.Bounded(0, 9)}, n=3000, neighbours="change-one")
    model = nw.LinearRegression("age", "cost")
    plan = nw.plan(nw.Moments(["age"], "cost"), schema, guarantee=nw.GaussianDP(2))
    covariates = {"covariate_mean": [4.0], "covariate_covariance": [[2.0]]}
    truth = {"intercept": 2, "age": 0.5, "noise_variance": 1, **covariates}
    text = posterior_page(nw.infer(nw.simulate(plan, model, at=truth, seed=1), model, seed=1, progress=False))
    assert text.count("Prior and posterior of each parameter") == 1
    assert "Blue is what is known" in text
    assert "dashed" not in text


def by_region(law: object, plan_of: object, levels: object, bounds: object) -> Posterior:
    columns = {"y": bounds, "region": nw.Levels(levels)}
    schema = nw.Schema(columns, n=300, neighbours="change-one")
    population = nw.Grouped("region", y=law, names=levels)
    release = nw.simulate(nw.plan(plan_of, schema, guarantee=nw.PureDP(2)), population, seed=1)
    return nw.infer(release, nw.Grouped("region", y=law), seed=1, progress=False, draws=100)


LEVELS = ['a, "b" <b>', "Zürich's", "$x_1$ 50%"]


@pytest.mark.parametrize("bounds", [nw.Bounded(0, 1), nw.Levels(["no", "yes"])], ids=["number", "levels"])
def test_groups_of_yes_and_no_are_told_by_their_share(bounds: object, tmp_path: object) -> None:
    is_number = isinstance(bounds, nw.Bounded)
    yes = "1" if is_number else "yes"
    statistic = nw.Mean("y", by="region") if is_number else nw.Count(nw.column("y").equals("yes"), by="region")
    found = by_region(nw.Bernoulli(p=stats.beta(1, 1)), statistic, LEVELS, bounds)
    page = Parsed(posterior_page(found))
    (headline,) = page.texts["h1"]
    assert f"share of y = {yes}" in headline
    assert re.search(r"[\d.]+ %, 90 % interval [\d.]+ to [\d.]+$", headline), headline
    assert f"share of {yes} (%)" in page.texts["th"]
    for kind in (None, "contrast"):
        assert found.plot(kind=kind) == found.plot(kind=kind, quantity=f"share of {yes}")


def test_groups_of_a_law_without_a_mean_are_told_by_their_median() -> None:
    law = nw.LocationScale(stats.cauchy, loc=stats.norm(50, 20), scale=5.0)
    found = by_region(law, nw.Mean("y", by="region"), LEVELS, nw.Bounded(0, 100))
    assert "median y" in Parsed(posterior_page(found)).texts["h1"][0]
    assert "% below 0" in str(found.verdict)
    assert "own mean" not in str(found.verdict)
    assert found.plot() == found.plot(quantity="median")


def test_a_survey_has_a_report_that_speaks_of_its_answers() -> None:
    survey = nw.Survey(ONE_UNKNOWN, guarantee=nw.PureDP(2), queries="sign", n_particles=100, seed=1)
    for k in range(6):
        survey.answer(survey.query(), k % 2)
    text = " ".join(word for words in Parsed(posterior_page(survey.posterior())).texts.values() for word in words)
    assert "From answers under differential privacy" in text
    assert "known after the answers, with its 90 % interval; dashed is what was assumed before" in text
    assert "release" not in text.lower().replace("released", "")


def test_a_point_has_a_report_without_intervals() -> None:
    found = nw.infer(released(INCOME), ONE_UNKNOWN, method="mle", progress=False)
    parsed = Parsed(posterior_page(found))
    assert "img" not in parsed.tags
    assert "How it was computed" in parsed.texts["h2"]


def test_a_posterior_and_a_survey_show_themselves_in_a_notebook(posterior: Posterior) -> None:
    parsed = Parsed(posterior._repr_html_())
    assert parsed.texts["h2"][0].startswith("The mean income is")
    assert "Converged" in " ".join(parsed.texts["dd"])
    survey = nw.Survey(nw.Normal(mean=stats.norm(50, 20), sd=10), guarantee=nw.PureDP(1), n_particles=50, seed=1)
    shown = Parsed(survey._repr_html_())
    assert "0 counted, 0 waiting" in shown.texts["dd"]
    assert "mean" in shown.texts["td"]


def test_every_kind_of_picture_is_drawn_or_says_why_not(posterior: Posterior) -> None:
    for kind in (None, "parameters", "distribution"):
        assert posterior.plot(kind=kind, width=3.6).startswith(b"\x89PNG")
    assert posterior.plot() == posterior.plot(kind="parameters")
    with pytest.raises(InvalidArgument, match="did you mean 'distribution'"):
        posterior.plot(kind="distributions")
    for kind in ("groups", "contrast", "ratio"):
        with pytest.raises(Unsupported, match="no groups"):
            posterior.plot(kind=kind)


def test_a_picture_shows_itself_in_a_notebook(posterior: Posterior) -> None:
    picture = posterior.plot()
    assert picture._repr_png_() == bytes(picture)  # type: ignore[attr-defined]
    assert len(repr(picture)) < 60


@pytest.mark.parametrize(
    ("population", "statistic", "column", "at"),
    [
        (nw.Poisson(rate=stats.gamma(2)), nw.Mean(X), NUMBERS, {"rate": 4.0}),
        (nw.Categorical(p=stats.dirichlet([1, 1])), nw.Histogram("x"), nw.Levels(["$b", "<c>"]), {"p": [0.6, 0.4]}),
        (nw.LogNormal(log_mean=stats.norm(0, 1), log_sd=1), nw.Histogram("x", [1, 2, 4]), NUMBERS, {"log_mean": 0.0}),
        (nw.Gamma(shape=0.5, rate=stats.halfnorm(scale=1)), nw.Mean(X), NUMBERS, {"rate": 0.3}),
    ],
    ids=["counts", "levels", "histogram", "a pole at 0"],
)
def test_distributions_of_every_sort_of_column_are_drawn(population, statistic, column, at) -> None:
    schema = nw.Schema({"x": column}, n=500, neighbours="change-one")
    release = nw.simulate(nw.plan(statistic, schema, guarantee=nw.PureDP(1)), population, at=at, seed=3)
    found = nw.infer(release, population, seed=3, draws=100, chains=2, progress=False)
    assert found.plot(kind="distribution").startswith(b"\x89PNG")


def test_the_band_drawn_is_that_of_the_density_at_the_draws(posterior: Posterior) -> None:
    """Against scipy's gamma density at the draws themselves."""
    from noisewise.report.posterior_pictures import Sheet, _panel

    (source,) = [one for one in posterior.answer_sources() if one.column == "income"]
    panel = _panel(posterior, source, Sheet())  # type: ignore[arg-type]
    shape, rate = (posterior.draws[name].ravel() for name in ("shape", "rate"))
    inside = panel.x > 5
    exact = stats.gamma(shape[:, None], scale=1 / rate[:, None]).pdf(panel.x[inside])
    np.testing.assert_allclose(panel.middle[inside], exact.mean(axis=0), rtol=0.02, atol=1e-6)
    wide = panel.high[inside] - panel.low[inside]
    np.testing.assert_allclose(wide, np.subtract(*np.quantile(exact, [0.95, 0.05], axis=0)), rtol=0.25, atol=1e-6)


def test_the_mark_is_the_published_mean_with_its_noise() -> None:
    from noisewise.report.published import published_marks

    release = released(INCOME, INCOME**2, INCOME.clip(0, 120))
    first, second = published_marks([release], "income")
    assert (first.name, second.name) == ("mean(income)", "mean(clip(income, 0, 120))")
    assert first.value == pytest.approx(release.estimate[0])
    sd = 250 * 3 * np.sqrt(2) / 4000  # three features share epsilon = 1, each with range 250 at n = 4000
    assert 0.1 * sd < first.high - first.value < 3 * sd


def test_an_empty_page_and_a_page_of_pieces_are_well_formed() -> None:
    Parsed(page("t", "l", []))
    section = Section(
        "a", "b\n\nc", "d", ("e",), [("f", "g")], b"", [Picture(b"no png", "x")], [("t", "u")], [Table((), [])]
    )
    Parsed(page("t", "l", [section], headline="h"))
    Parsed(pieces(section))


def test_a_chance_that_no_draw_contradicts_is_no_certainty() -> None:
    assert [chance_words(share) for share in (0.0, 0.001, 0.25, 0.9, 0.999, 1.0)] == [
        "below 1 %", "below 1 %", "25 %", "90 %", "over 99 %", "over 99 %",
    ]  # fmt: skip


def test_numbers_of_a_report_are_written_without_powers_of_ten() -> None:
    assert [plain_number(number, 3) for number in (0.0123456, 7.071, 999.4, 1414.2, -1414.2, 2e16)] == [
        "0.0123", "7.07", "999", "1414", "-1414", "2e+16"
    ]  # fmt: skip
    assert plain_number(1234567.8, 6) == "1234568"


def test_a_number_that_the_law_states_has_no_interval_in_the_table_of_groups() -> None:
    columns = {"x": NUMBERS, "g": nw.Levels(["a", "b"])}
    schema = nw.Schema(columns, n=400, neighbours="change-one")
    law = nw.Normal(mean=stats.norm(20, 10), sd=4)
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.PureDP(1))
    known = nw.Grouped("g", x=law, names=["a", "b"])
    release = nw.simulate(plan, known, at={"mean": [15, 25], "share": [0.5, 0.5]}, seed=1)
    table, _ = answer_tables(nw.infer(release, nw.Grouped("g", x=law), seed=1, progress=False).answers())
    assert table.header == ["group", "mean", "sd", "median"]
    for _, mean, sd, _ in table.rows:
        assert sd == "4"
        assert re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", mean)
