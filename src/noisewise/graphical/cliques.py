"""Cliques, levels and ties as people write them, checked and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.printable import shown
from noisewise.schema import Levels, Schema

__all__ = ["Clique", "read_cliques", "read_columns", "read_levels", "read_names", "read_ties"]

Clique = tuple[str, ...]


def read_names(names: object, argument: str) -> Clique:
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if not is_list or not names or not all(isinstance(name, str) and name for name in names):  # type: ignore[attr-defined]
        raise InvalidArgument(
            f"{argument} must list columns by name, as in ['age', 'sex'], not {shown(names)}.", argument=argument
        )
    read: Clique = tuple(names)  # type: ignore[arg-type]
    if len(set(read)) != len(read):
        raise InvalidArgument(f"{argument} names a column twice: {shown(list(read), 100)}.", argument=argument)
    return read


def read_columns(columns: object, known: Clique) -> Clique:
    """One column or several, by name, of those that are known."""
    given: Any = columns.tolist() if isinstance(columns, np.ndarray) else columns
    names = (given,) if isinstance(given, str) else given
    is_list = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
    if not is_list or not names or len(set(names)) != len(names):
        raise InvalidArgument("columns must be a column, or a list of different ones, by name.", argument="columns")
    if unknown := [name for name in names if name not in known]:
        raise InvalidArgument(
            f"The model has no column {shown(unknown[0])}; it has {', '.join(known):.200}.", argument="columns"
        )
    return tuple(names)


def read_cliques(cliques: object, argument: str = "cliques") -> tuple[Clique, ...]:
    """Cliques as lists of columns: those of a model, or those of a group that is tied."""
    if isinstance(cliques, str) or not isinstance(cliques, Sequence) or not cliques:
        what = "cliques must be" if argument == "cliques" else f"A group in {argument} must be"
        raise InvalidArgument(
            f"{what} a list of lists of columns, as in [['age', 'sex'], ['sex', 'income']].", argument=argument
        )
    read = tuple(read_names(clique, argument) for clique in cliques)
    if len(set(map(frozenset, read))) != len(read):
        raise InvalidArgument(f"A clique is given twice in {argument}.", argument=argument)
    return read


def read_levels(levels: object, cliques: Sequence[Clique]) -> dict[str, Levels]:
    """Levels by column, in the order they are declared; a Schema may have columns that are in no clique."""
    used = {name for clique in cliques for name in clique}
    if isinstance(levels, Schema):
        if missing := sorted(used - set(levels.columns)):
            raise InvalidArgument(f"The schema has no column {shown(missing[0])}.", argument="levels")
        return {name: levels.levels(name) for name in levels.columns if name in used}
    if not isinstance(levels, Mapping):
        raise InvalidArgument(
            f"levels is a {type(levels).__name__}; give a Schema, or the levels of each column, as in "
            "{'sex': ['f', 'm']}.",
            argument="levels",
        )
    if missing := sorted(used - set(levels)):
        raise InvalidArgument(f"levels has none for the column {shown(missing[0])}.", argument="levels")
    if idle := [name for name in levels if name not in used]:
        raise InvalidArgument(
            f"The column {shown(idle[0])} is in no clique. Give it one of its own, as in [{shown(idle[0])}], if it is "
            "independent of the others; else leave it out.",
            argument="cliques",
        )
    return {name: given if isinstance(given, Levels) else Levels(given) for name, given in levels.items()}


def read_ties(tied: object, cliques: Sequence[Clique], levels: Mapping[str, Levels]) -> tuple[tuple[int, ...], ...]:
    """Groups of cliques by position, in which position by position the levels agree."""

    def alphabet(clique: Clique) -> tuple[tuple[str | int, ...], ...]:
        return tuple(levels[name].levels for name in clique)

    if tied is None or tied is False:
        return ()
    if tied is True:
        alike: dict[Any, list[int]] = {}
        for index, clique in enumerate(cliques):
            if len(clique) == 2:
                alike.setdefault(alphabet(clique), []).append(index)
        groups = [group for group in alike.values() if len(group) > 1]
        if not groups:
            raise InvalidArgument(
                "tied=True ties cliques of two columns with the same levels; there are no two.", argument="tied"
            )
        return tuple(map(tuple, groups))
    if isinstance(tied, str) or not isinstance(tied, Sequence):
        raise InvalidArgument(
            "tied must be True, or list groups of cliques that share their potentials.", argument="tied"
        )
    found = []
    for group in tied:
        named = read_cliques(group, "tied")
        if unknown := [clique for clique in named if clique not in cliques]:
            raise InvalidArgument(
                f"tied names {shown(list(unknown[0]), 80)}, which is no clique of this model (the order "
                "of its columns counts).",
                argument="tied",
            )
        if len({alphabet(clique) for clique in named}) > 1:
            raise InvalidArgument(
                f"The cliques tied with {shown(list(named[0]), 80)} have other levels.", argument="tied"
            )
        if len(named) > 1:
            found.append(tuple(sorted(cliques.index(clique) for clique in named)))
    members = [index for group in found for index in group]
    if len(set(members)) != len(members):
        raise InvalidArgument("A clique is tied in two groups; make them one.", argument="tied")
    return tuple(found)
