"""Every kind of statistic that text, spec files and release files can name: a kind joins by registering its class."""

from __future__ import annotations

from noisewise.errors import InvalidArgument
from noisewise.printable import shown
from noisewise.statistics.additive import Count, Mean, Sum, TruncatedSum
from noisewise.statistics.eigenvalue import SmallestEigenvalue
from noisewise.statistics.grouped import GroupedCount, GroupedMean, GroupedSum
from noisewise.statistics.local import Records
from noisewise.statistics.moments import Moments
from noisewise.statistics.order import Maximum, Median, Minimum, Quantile
from noisewise.statistics.protocol import Statistic
from noisewise.statistics.tables import Histogram, Marginals

KINDS: dict[str, type[Statistic]] = {}


def register_statistic(kind: type[Statistic]) -> type[Statistic]:
    """Let texts and files name a statistic: by its kind, with an underscore for a hyphen. Also a class decorator."""
    name = kind.kind.replace("-", "_")
    if not name.isidentifier() or name != name.lower():
        raise InvalidArgument(f"kind = {shown(kind.kind)} must be words of small letters and hyphens.", argument="kind")
    if name in KINDS:
        raise InvalidArgument(f"There is a statistic {kind.kind!r} already.", argument="kind")
    KINDS[name] = kind
    return kind


def statistic_kind(name: str) -> type[Statistic] | None:
    """The class with this name, as it is written in a text."""
    return KINDS.get(name)


def statistic_names() -> tuple[str, ...]:
    """The names as people write them in a text; groups are written mean(x, by=region)."""
    grouped = (GroupedMean, GroupedSum, GroupedCount)
    return tuple(name for name, kind in KINDS.items() if kind not in grouped)


def statistic_kinds() -> tuple[type[Statistic], ...]:
    """Every registered class."""
    return tuple(KINDS.values())


for _kind in (
    Mean, Sum, Count, TruncatedSum, Histogram, Marginals, Moments, SmallestEigenvalue, Records,
    Median, Maximum, Minimum, Quantile, GroupedMean, GroupedSum, GroupedCount,
):  # fmt: skip
    register_statistic(_kind)
