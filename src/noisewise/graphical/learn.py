"""From releases to what is known of a graphical model: build the problem, run a method, say what it is worth.

Methods work on potentials; what is kept is the probabilities of columns and cliques at every draw, which mean the same
however potentials are written, and the potentials without their gauge for later questions. Chains are judged by
probabilities. Where all of that would take more than 400 MB, draws are thinned, and tables of cliques are left out:
they can be asked for again (`GraphicalModel.marginal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.graphical.gauge import gauge_free
from noisewise.graphical.methods import AUTOMATIC, method_named
from noisewise.graphical.model import POTENTIALS, TAU, probability_name
from noisewise.graphical.observed import TOO_NARROW, Observed
from noisewise.graphical.probabilities import clique_tables, column_rows, column_tables, evenly, table_rows
from noisewise.inference.diagnostics import judged
from noisewise.inference.methods import Found
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import Chains, PointEstimate, Verdict
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["learn"]

MOST_NUMBERS = 50_000_000  # of all draws together
MOST_JUDGED = 400  # probabilities whose chains are judged one by one


def learn(model: GraphicalModel, observed: Observed, settings: Settings) -> Found:
    """A method run on what releases say about a graphical model, and what it is worth."""
    chosen = method_named(settings.method)
    options = chosen.read(settings.options)
    log_evidence, diverged = None, tuple[str, ...]()
    if chosen.is_point:
        fit = chosen.run(observed.problem, **options)
        theta, tau = fit.theta[None, None], None if fit.tau is None else np.full((1, 1), fit.tau)
        log_evidence = fit.log_evidence
        how = f"{chosen.words}, {_number(fit.steps, 'step')}"
    else:
        fit = chosen.run(
            observed.problem, settings.rng, chains=settings.chains, draws=settings.draws, warmup=settings.warmup,
            progress=settings.report, **options,
        )  # fmt: skip
        theta, tau, how = fit.theta, fit.tau, f"{chosen.words}, likelihood with {fit.likelihood}"
        diverged = _divergence_note(int(np.sum(fit.divergent)), settings.chains * settings.draws)
    if not np.all(np.isfinite(theta)):
        said = " ".join((*fit.notes, *observed.notes))
        raise NoisewiseError(f"method={chosen.name!r} found no finite potentials. {said}")
    draws, notes = named_draws(model, observed, theta, tau)
    return Found(
        draws=draws,
        method=chosen.name,
        how=how,
        law=_law_in_words(model, observed),
        verdict=Verdict(
            PointEstimate() if chosen.is_point else _judged(model, draws),
            (*fit.notes, *diverged, *observed.notes, *notes, *_strength_note(observed, chosen.name)),
            observed.warnings,
        ),
        is_point=chosen.is_point,
        log_evidence=log_evidence,
    )


def named_draws(
    model: GraphicalModel, observed: Observed, theta: Floats, tau: Floats | None
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Draws (chains, draws, ..) by name from parameters (chains, draws, p), and what had to be left out."""
    chains, draws, parameters = theta.shape
    cells = model.tables.cells
    notes = []
    if chains * draws * parameters > MOST_NUMBERS:
        step = -(-chains * draws * parameters // MOST_NUMBERS)
        theta, tau = theta[:, ::step], None if tau is None else tau[:, ::step]
        draws = theta.shape[1]
        notes.append(f"One draw in {step} was kept, to save memory.")
    keeps_cliques = chains * draws * (parameters + cells) <= MOST_NUMBERS
    if not keeps_cliques:
        notes.append("The tables of cliques at each draw were not kept, to save memory; ask for them with "
                     "model.marginal(posterior, columns).")  # fmt: skip
    rows = theta.reshape(-1, parameters)
    if keeps_cliques:
        mu = table_rows(model, rows)
        columns, cliques = column_tables(model, mu), clique_tables(model, mu)
    else:
        columns, cliques = column_rows(model, rows), {}
    width = {} if tau is None else {TAU: tau.ravel()}
    by_row = {**columns, **width, **cliques, POTENTIALS: gauge_free(observed.problem)(rows)}
    made = {name: values.reshape(chains, draws, *values.shape[1:]) for name, values in by_row.items()}
    return made, tuple(notes)


def _judged(model: GraphicalModel, draws: Mapping[str, Floats]) -> Chains:
    """The evidence in the chains of probabilities, some of them where there are many, and of the prior's width."""
    columns, names = [draws[TAU][:, :, None]], [TAU]
    for table in dict.fromkeys([*((name,) for name in model.columns), *model.cliques]):
        if (values := draws.get(probability_name(table))) is not None:
            columns.append(values.reshape(*values.shape[:2], -1))
            names += [f"P({label})" for label in model.cell_labels(table)]
    positions = np.concatenate(columns, axis=2)
    some = evenly(len(names), MOST_JUDGED)
    with np.errstate(all="ignore"):
        return judged(positions[:, :, some], names=tuple(names[k] for k in some))


def _law_in_words(model: GraphicalModel, observed: Observed) -> str:
    problem = observed.problem
    entries = sum(len(holder.observed) for holder in problem.holders)
    people = f"{problem.n:.0f} records"
    if len(problem.holders) > 1:
        people += f" of {len(problem.holders)} holders"
    tied = f", {sum(map(len, model.ties))} of them tied" if model.ties else ""
    return (
        f"{entries} noisy cells from {people}; {_number(len(model.columns), 'column')} in "
        f"{_number(len(model.cliques), 'clique')}{tied}, {model.parameters} potentials"
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _strength_note(observed: Observed, name: str) -> tuple[str, ...]:
    return observed.weak_note(TOO_NARROW if name == AUTOMATIC else "noise swamps the tables")


def _divergence_note(count: int, total: int) -> tuple[str, ...]:
    """Steps of the sampler that went astray, where they are more than one in a hundred."""
    if count <= total / 100:
        return ()
    return (f"{count} of {total} steps diverged: the chains may have missed narrow places; ask for a longer warm-up.",)
