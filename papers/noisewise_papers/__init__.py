"""Studies: every table and figure of the papers, redone; one file a study.

A package of its own beside the library, because nobody needs it to release or to learn: `noisewise study` finds it
where it is installed, as it is in the repository.

A module here that defines `STUDY` (a `study.Study` of the module's name, with hyphens) is found by its name and listed
by `noisewise study`; nothing else has to be told about it.
"""

from __future__ import annotations

import importlib
import pkgutil

from noisewise.errors import InvalidArgument
from noisewise_papers.study import Study

__all__ = ["named", "studies"]

__version__ = "0.1.0"


def studies() -> list[Study]:
    """Every study, by name."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return sorted((module.STUDY for module in modules if hasattr(module, "STUDY")), key=lambda study: study.name)


def named(name: str) -> Study:
    """The study of that name."""
    known = {study.name: study for study in studies()}
    if name not in known:
        raise InvalidArgument(
            f"There is no study {name!r:.60}. The studies are {', '.join(known)}; `noisewise study` says what they do.",
            argument="name",
        )
    return known[name]
