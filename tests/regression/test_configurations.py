"""Which combinations of yes/no conditions there are, and what features are within each."""

import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.regression.configurations import Configurations, has_conditions, is_discrete

REGION, AGE, BMI = nw.column("region"), nw.column("age"), nw.column("bmi")
SCHEMA = nw.Schema(
    {"region": nw.Levels(["north", "south", "west"]), "smoker": nw.Levels(["no", "yes"]),
     "age": nw.Bounded(0, 120), "bmi": nw.Bounded(5, 80)}, n=100, neighbours="change-one",
)  # fmt: skip
SMOKES = nw.column("smoker").equals("yes")


def test_levels_of_one_column_exclude_each_other():
    some = Configurations.of([REGION.equals("north"), REGION.equals("south")], (SCHEMA,))
    every = Configurations.of([REGION.equals(level) for level in ("north", "south", "west")], (SCHEMA,))
    assert sorted(map(tuple, some.states)) == [(0, 0), (0, 1), (1, 0)]
    assert sorted(map(tuple, every.states)) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert every.directions().shape[1] == 2  # the third is 1 less the others
    assert every.products().shape[1] == 0


def test_intervals_of_one_number_are_as_the_line_makes_them():
    made = Configurations.of([AGE.between(0, 17), AGE.between(65, 200), AGE.between(0, 200)], (SCHEMA,))
    assert sorted(map(tuple, made.states)) == [(0, 0, 1), (0, 1, 1), (1, 0, 1)]


def test_conditions_on_different_columns_are_all_combined():
    made = Configurations.of([SMOKES, REGION.equals("north"), AGE.between(65, 120)], (SCHEMA,))
    assert made.count == 8
    assert made.directions().shape[1] == 3
    assert made.products().shape[1] == 3


FEATURES = [
    SMOKES, 1 - SMOKES, 2 * SMOKES - 0.5, SMOKES * REGION.equals("west"), SMOKES * AGE, (AGE - 50) * (1 - SMOKES) + BMI,
    AGE**2, (SMOKES + AGE) ** 2, abs(SMOKES - 0.25), (SMOKES + REGION.equals("north")).clip(0, 1),
    AGE.between(18, 65) * BMI, (SMOKES + REGION.equals("north")).between(2, 3), AGE * BMI - 3, (2 * SMOKES + 1) ** 0.5,
]  # fmt: skip


@pytest.mark.parametrize("feature", FEATURES, ids=str)
def test_a_feature_is_what_its_parts_say_on_every_record(rng, feature):
    n = 200
    columns = {"region": rng.integers(0, 3, n), "smoker": rng.integers(0, 2, n), "age": rng.uniform(0, 120, n),
               "bmi": rng.uniform(5, 80, n)}  # fmt: skip
    made = Configurations.of([feature], (SCHEMA,))
    seen = np.array([condition.value(columns, SCHEMA) for condition in made.conditions]).reshape(-1, n).T
    which = np.argmax([[np.array_equal(row, state) for state in made.states] for row in seen], axis=1)
    assert all(np.array_equal(made.states[c], row) for c, row in zip(which, seen, strict=True))
    numbers = np.array([number.value(columns, SCHEMA) for number in made.numbers]).reshape(-1, n).T
    found = made.constant[which, 0] + np.einsum("nk,nk->n", made.coefficient[which, 0], numbers)
    assert found == pytest.approx(feature.value(columns, SCHEMA), rel=1e-12, abs=1e-9)


def test_what_is_discrete_and_what_only_holds_a_condition():
    assert is_discrete(1 - 2 * SMOKES * REGION.equals("north"))
    assert not is_discrete(SMOKES * AGE)
    assert has_conditions(SMOKES * AGE)
    assert not has_conditions(AGE * BMI - 3)


def test_a_bent_mixture_and_too_many_combinations_are_refused_with_the_way_out():
    with pytest.raises(Unsupported, match="GivenMoments"):
        Configurations.of([abs(SMOKES - AGE)], (SCHEMA,))
    many = nw.Schema({f"c{k}": nw.Levels([0, 1]) for k in range(9)}, n=10, neighbours="change-one")
    with pytest.raises(Unsupported, match=r"256.*GivenMoments"):
        Configurations.of([nw.column(f"c{k}").equals(1) for k in range(9)], (many,))
