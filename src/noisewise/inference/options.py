"""What an option of a method may be: a value as the method takes it, or a sentence that names the option."""

from __future__ import annotations

from noisewise.errors import InvalidArgument
from noisewise.exact import fraction, integer
from noisewise.printable import shown

__all__ = ["between_0_and_1", "positive_or_none", "power_of_two", "yes_or_no"]

FEWEST_POINTS, MOST_POINTS = 2**8, 2**20


def power_of_two(value: object, name: str) -> int | None:
    """A number of points, or None for the method's own; few find other moments than there are, and Sobol points are
    balanced in powers of two."""
    if value is None:
        return None
    count = integer(value, name, minimum=FEWEST_POINTS, maximum=MOST_POINTS)
    if count & (count - 1):
        raise InvalidArgument(f"{name} = {count} must be a power of two, such as 2048.", argument=name)
    return count


def yes_or_no(value: object, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} = {shown(value, 40)} must be True or False.", argument=name)
    return value


def between_0_and_1(value: object, name: str) -> float:
    """A number above 0 and below 1."""
    number = fraction(value, name, positive=True)
    if not number < 1:
        raise InvalidArgument(f"{name} = {shown(value, 40)} must lie between 0 and 1.", argument=name)
    return float(number)


def positive_or_none(value: object, name: str) -> float | None:
    """A number above 0, or None where it is to be found."""
    return None if value is None else float(fraction(value, name, positive=True))
