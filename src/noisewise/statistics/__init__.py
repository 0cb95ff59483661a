"""Statistics: what is computed from records, with its joint sensitivity."""

from noisewise.statistics.additive import Count, Mean, Sum, TruncatedSum
from noisewise.statistics.eigenvalue import SmallestEigenvalue
from noisewise.statistics.feature import Feature, column
from noisewise.statistics.local import Records
from noisewise.statistics.moments import Moments
from noisewise.statistics.order import Maximum, Median, Minimum, Quantile
from noisewise.statistics.protocol import Rows, Settled, Sort, Statistic
from noisewise.statistics.registry import register_statistic
from noisewise.statistics.sensitivity import Sensitivity
from noisewise.statistics.tables import Histogram, Marginals
from noisewise.statistics.text import feature_from_text, statistic, statistic_from_dict

__all__ = [
    "Count",
    "Feature",
    "Histogram",
    "Marginals",
    "Maximum",
    "Mean",
    "Median",
    "Minimum",
    "Moments",
    "Quantile",
    "Records",
    "Rows",
    "Sensitivity",
    "Settled",
    "SmallestEigenvalue",
    "Sort",
    "Statistic",
    "Sum",
    "TruncatedSum",
    "column",
    "feature_from_text",
    "register_statistic",
    "statistic",
    "statistic_from_dict",
]
