"""What is remembered of a bank: no more numbers than allowed, the least used forgotten, safe among threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.populations.averages import EACH, N_BATCHES, Averages, Memory
from noisewise.populations.cleaned import cell_probabilities
from noisewise.statistics.feature import as_feature

X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, 100)}, n=400, neighbours="change-one")


def draw(rng, theta, n):
    return {"x": theta["mean"] + 15 * rng.standard_normal(n)}


def answer(d):
    return Averages(np.ones(N_BATCHES), np.zeros((N_BATCHES, d)), np.zeros((N_BATCHES, 0, 0)))


def test_no_more_numbers_are_kept_than_allowed_and_the_least_used_go_first():
    each = answer(100).numbers
    assert each == EACH + N_BATCHES * 101
    memory = Memory(3 * each)
    for k in range(3):
        memory.keep((k,), answer(100))
    assert memory.get((0,)) is not None  # used last
    memory.keep((3,), answer(100))
    assert memory.get((1,)) is None
    assert all(memory.get((k,)) is not None for k in (0, 2, 3))
    assert memory.numbers == 3 * each


def test_an_answer_larger_than_the_memory_is_not_kept_and_one_given_twice_counts_once():
    memory = Memory(answer(10).numbers)
    memory.keep(("large",), answer(11))
    assert len(memory) == memory.numbers == 0
    for _ in range(5):
        memory.keep(("same",), answer(10))
    assert (len(memory), memory.numbers) == (1, answer(10).numbers)


def test_wide_questions_at_many_theta_stay_within_the_memory():
    """Local answers are laid on thousands of places: eight batches of 8193 numbers for each theta."""
    people = nw.Simulator(draw, mean=stats.norm(50, 20)).sized(2**12)
    memory = people._memory
    grid = np.linspace(0, 100, 8193)
    wide = N_BATCHES * 8194 + EACH
    for mean in np.linspace(20, 80, 300):
        people.spread_over(SCHEMA, as_feature("x"), grid, people.point({"mean": np.array([mean])}))
    assert len(memory) == memory.most // wide < 300
    assert memory.numbers == len(memory) * wide


def test_threads_share_a_memory_and_get_the_same_answers():
    people = nw.Simulator(draw, mean=stats.norm(50, 20)).sized(2**12)
    people._memory.most = 40 * answer(4).numbers  # forgets while others look
    table = nw.Histogram("x", [25, 50, 75])
    theta = {"mean": np.linspace(20, 80, 60)}
    alone = cell_probabilities(nw.Simulator(draw, mean=stats.norm(50, 20)).sized(2**12), SCHEMA, table, theta)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cell_probabilities(people, SCHEMA, table, theta), range(16)))
    assert all(np.array_equal(one, alone) for one in found)
    assert people._memory.numbers <= people._memory.most


def test_a_simulator_of_another_process_remembers_nothing_yet():
    people = nw.Simulator(draw, mean=stats.norm(50, 20)).sized(2**12)
    cell_probabilities(people, SCHEMA, nw.Histogram("x", [50]), {"mean": np.array([50.0])})
    again = pickle.loads(pickle.dumps(people))
    assert (len(people._memory), len(again._memory)) == (1, 0)
    assert again.columns == people.columns
    assert again.point({"mean": np.array([3.0])}) == pytest.approx({"mean": 3.0})
