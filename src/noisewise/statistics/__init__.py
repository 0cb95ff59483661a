"""Statistics: what is computed from records, with its joint sensitivity."""

from noisewise.statistics.additive import Count, Mean, Sum, TruncatedSum
from noisewise.statistics.feature import Feature, column
from noisewise.statistics.local import Records
from noisewise.statistics.moments import Moments, SmallestEigenvalue
from noisewise.statistics.order import Maximum, Median, Minimum, Quantile
from noisewise.statistics.sensitivity import Sensitivity
from noisewise.statistics.tables import Histogram, Marginals
from noisewise.statistics.text import Statistic, feature_from_text, statistic, statistic_from_dict

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
    "Sensitivity",
    "SmallestEigenvalue",
    "Statistic",
    "Sum",
    "TruncatedSum",
    "column",
    "feature_from_text",
    "statistic",
    "statistic_from_dict",
]
