"""Undirected graphical models from noisy tables, with uncertainty.

The model, and what can be asked of it:
    model, cliques           GraphicalModel: columns, cliques, ties; how these are read
    answers, probabilities   marginals, conditionals, held-out likelihood; tables at draws of the potentials
    synthetic, direct        made-up records; intervals that rest on no model
    quick                    intervals around the estimate of `map`, for models of any size
    compare                  structures ranked on the same releases
    text                     the model in a spec file
What is observed:
    observed, counted        releases as holders of noisy cells; which cells of the model an entry counts
    null_pairs               tables that leave empty steps out
    problem                  Problem and Holder: all that a method is given
Methods, each a function from a Problem to a point or to draws:
    learn, methods           releases to a Posterior; the methods by name
    empirical_bayes          `map`, with the evidence
    matrix_free              `map` for large tables, by products alone; chooses between the two
    sampler                  `posterior`, by Hamiltonian Monte Carlo; cell_laws, score: its likelihood and slope
    matching, box_descent    the convex problems under them; those of the papers: `published.graphical`
Inference in a model whose potentials are given:
    structure, propagation   junction trees; belief propagation, compiled
    engine, loopy            exact answers; approximate ones where the tree is too large
    gauge                    directions of the potentials that change nothing
Simulation and checks:
    replicate, confidential  releases drawn from the model; the counts before noise
"""
