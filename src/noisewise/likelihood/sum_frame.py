"""Several tilted sums at all frequencies that matter: the terms of the sum that `joint_inversion` takes.

phi^n fades like exp(-t' n C t/2), so frequencies with t' (n C) t <= R^2 matter: an ellipsoid, thin where sums are
correlated. It is covered by strips: the last sum's frequency runs freely, and each earlier one only about where the
later ones put its centre, -sum_j c_ij t_j with the coefficients of the Cholesky recursion of n C. On a strip phi is a
matrix product of waves, and half of all frequencies suffice (p is real).

Nearly all records at one value: with a(t) the part of phi at that value and b = phi - a, the terms are those of
    phi^n - a^n - n a^{n-1} b - n (n-1)/2 a^{n-2} b^2,
and `apart` adds what was taken out, with no record off that value, one, and two, point by point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.likelihood.noise_on_sum import NoiseOnSum, Window
from noisewise.likelihood.record_tilt import Record, Tilted, best_tilt
from noisewise.likelihood.sum_setting import POINT, SumSetting
from noisewise.populations.parameters import Array

__all__ = ["Axis", "Frame", "waves_of"]

RADIUS = 5.0
VISIBLE_ATOM = 1e-6  # the probability that all records are at one value, from which it is taken out
LONE = 0.9  # of the tilted weight on one point that is no atom: the nodes do not resolve the tilt
UNSEEN_POINT = 1e-12  # of weight: records there add nothing
APART_ROWS = 64


class Axis(NamedTuple):
    """One sum's frequencies: step (K,), whole numbers of a lattice's window (0: none), the noise's transform by index.

    table[k, j - first] is G at frequency j step. On a lattice indices are taken modulo the window, and phases, which
    are about the centre, are turned by `shift`, from there to the window's low end.
    """

    step: Array
    period: int
    table: Any
    first: int
    shift: Array

    def noise(self, index: Any) -> Any:
        """G at whole-number indices (K, ...)."""
        place = index % self.period if self.period else index - self.first
        found = np.take_along_axis(self.table, place.reshape(len(place), -1), axis=1).reshape(index.shape)
        if not self.period:
            return found
        return found * np.exp(-1j * _along_rows(self.step * self.shift, index) * index)


@dataclass(frozen=True, eq=False)
class Frame:
    """Everything about a batch of rows that does not depend on a single frequency."""

    setting: SumSetting
    record: Record
    tilt: Array
    tilted: Tilted
    spread: Array  # (K, r, r): covariance of the sums, with Gaussian noise where it is smeared
    windows: tuple[Window, ...]
    periods: tuple[int, ...]  # whole numbers in a lattice's window; 0 for a continuous sum
    atom: Array  # (K, r): the value taken out, NaN where none is
    radius: float = RADIUS

    @classmethod
    def of(cls, setting: SumSetting, record: Record, atoms: Array) -> Frame:
        n, pull = setting.n, setting.pull
        tilt = best_tilt(record, n, pull)
        tilted = record.tilted(tilt)
        spread = n * tilted.covariance.copy()
        third = n * np.einsum("km,kmr->kr", tilted.weights, (record.values - tilted.mean[:, None, :]) ** 3)
        windows, periods = [], []
        for k, noise in enumerate(setting.noises):
            if setting.is_smeared(k):
                assert noise.gauss is not None
                spread[:, k, k] += noise.gauss[1] ** 2
            sd = np.sqrt(np.maximum(spread[:, k, k], 0.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                skewness = np.nan_to_num(np.abs(third[:, k]) / sd**3, posinf=0.0)
            window, period = setting.window(k, record, n * tilted.mean[:, k], sd, skewness)
            windows.append(window)
            periods.append(period)
        atom = _largest_atom(record, tilted, atoms, n)
        return cls(setting, record, tilt, tilted, spread, tuple(windows), tuple(periods), atom)

    def rows(self, chosen: Any) -> Frame:
        """The same for some of the rows."""
        return replace(
            self,
            record=self.record.rows(chosen),
            tilt=self.tilt[chosen],
            tilted=Tilted(*(part[chosen] for part in self.tilted)),
            spread=self.spread[chosen],
            windows=tuple(Window(*(part[chosen] for part in window)) for window in self.windows),
            atom=self.atom[chosen],
        )

    def log_probability(self) -> tuple[Array, Array]:
        """log p of these rows, and the rim's part of p."""
        terms, rim = self.terms()
        total = np.asarray(terms.real.sum(axis=(1, 2))) + self.apart
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = np.where(total > 0, self.log_unit + np.log(total), np.nan)
            return log_p, np.where(total > 0, rim / total, np.inf)

    @property
    def rank(self) -> int:
        return len(self.windows)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """The points whose records add something, (K, M)."""
        return np.asarray(self.tilted.weights > UNSEEN_POINT / self.setting.n)

    @property
    def pivots(self) -> tuple[Array, Array]:
        """The Cholesky recursion: variances (K, r) given all earlier sums, and coefficients (K, r, r) of centres.

        With A the matrix of t' A t, the best t_i for given later t_j is -sum_{j > i} coefficient_ij t_j.
        """
        left = self.spread.copy()
        pivot, coefficient = np.zeros(left.shape[:2]), np.zeros(left.shape)
        for i in range(self.rank):
            pivot[:, i] = np.maximum(left[:, i, i], 0.0)
            # A point is taken at frequency 0 alone, whatever the others do.
            moves = (pivot[:, i] > 0) & ~self._is_point(i)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                line = np.where(moves[:, None], left[:, i, :] / pivot[:, i, None], 0.0)
            coefficient[:, i, i + 1 :] = line[:, i + 1 :]
            left = left - pivot[:, i, None, None] * line[:, :, None] * line[:, None, :]
        # What rounding leaves of a sum that the others determine is not trusted: no frequency fades there.
        floor = 1e-13 * np.diagonal(self.spread, axis1=1, axis2=2)
        return np.maximum(pivot, floor), coefficient

    def _is_point(self, k: int) -> Any:
        """Rows in which the noise cannot tell where a continuous sum is: it does not move."""
        is_sure = np.sqrt(np.maximum(self.spread[:, k, k], 0.0)) <= POINT * self.setting.noises[k].finest
        return is_sure & (self.periods[k] == 0)

    @property
    def halves(self) -> Array:
        """How far each sum's index runs to either side of its centre, (K, r)."""
        pivot = self.pivots[0]
        counts = np.zeros((len(self.tilt), self.rank), int)
        for k in range(self.rank):
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = self.radius / np.sqrt(pivot[:, k]) * self.windows[k].length / (2 * np.pi)
            reach = np.where(self._is_point(k), 0.0, np.minimum(np.nan_to_num(reach, posinf=1e6), 1e6))
            counts[:, k] = np.ceil(reach).astype(int)
            if self.periods[k]:
                most = self.periods[k] // 2
                counts[:, k] = most if self.setting.is_whole else np.minimum(counts[:, k], most)
        return counts

    @property
    def counts(self) -> Array:
        """How many indices each sum takes, (K, r): inner ones on both sides, the outermost on one."""
        halves = self.halves
        counts = 2 * halves + 1
        counts[:, -1] = halves[:, -1] + 1
        return counts

    @property
    def spans(self) -> Array:
        """How far the indices of any sum may lie from 0, (K,): to its centre, and from there to either side."""
        halves, coefficient = self.halves.astype(float), self.pivots[1]
        steps = np.stack([2 * np.pi / window.length for window in self.windows], axis=1)
        reach = np.zeros(halves.shape)
        for k in range(self.rank - 1, -1, -1):
            with np.errstate(over="ignore", invalid="ignore"):
                centre = (np.abs(coefficient[:, k]) * reach * steps).sum(axis=1) / steps[:, k]
            reach[:, k] = halves[:, k] + np.nan_to_num(centre, nan=np.inf, posinf=np.inf)
        return np.asarray(reach.max(axis=1))

    @property
    def is_lone(self) -> Any:
        """Rows whose tilted record is one point that is no atom: the nodes do not resolve what is left of the law."""
        heaviest = np.argmax(self.tilted.weights, axis=1)
        rows = np.arange(len(heaviest))
        at = self.record.values[rows, heaviest]
        is_atom = np.isclose(at, self.atom, rtol=1e-12, atol=0).all(axis=1)
        # A sum of whole numbers has nothing but atoms.
        is_whole = all(lattice is not None for lattice in self.setting.lattices)
        lone = (self.tilted.weights[rows, heaviest] > LONE) & ~is_atom
        return np.zeros(len(rows), bool) if is_whole else lone

    def axes(self) -> tuple[list[Axis], list[Any]]:
        """The frequencies of every sum, the indices (K, N) of the outer ones, innermost last as (K, N, J)."""
        halves = self.halves.max(axis=0)
        _, coefficient = self.pivots
        rows, last = len(self.tilt), self.rank - 1
        steps = [2 * np.pi / window.length for window in self.windows]
        index: list[Any] = [None] * self.rank
        index[last] = np.broadcast_to(np.arange(halves[last] + 1), (rows, halves[last] + 1))
        for k in range(last - 1, -1, -1):
            wanted = sum(coefficient[:, k, j, None] * index[j] * steps[j][:, None] for j in range(k + 1, self.rank))
            centre = -np.rint(np.broadcast_to(wanted, index[k + 1].shape) / steps[k][:, None]).astype(int)
            around = np.arange(-halves[k], halves[k] + 1)
            if self.periods[k] and around.size >= self.periods[k]:
                # All frequencies of a lattice, of either sign: the centres of the sums before it depend on that.
                centre, around = np.zeros_like(centre), np.arange(self.periods[k]) - self.periods[k] // 2
            index[k] = centre[:, :, None] + around
            if k:
                index[k] = index[k].reshape(rows, -1)
                for j in range(k + 1, self.rank):
                    index[j] = np.repeat(index[j], around.size, axis=1)
        axes = [self._axis(k, steps[k], index[k]) for k in range(self.rank)]
        return axes, index

    def _axis(self, k: int, step: Array, index: Any) -> Axis:
        noise, window, tilt = self.setting.noises[k], self.windows[k], self.tilt[:, k]
        if self.periods[k]:
            points = window.low[:, None] + (window.length / self.periods[k])[:, None] * np.arange(self.periods[k])
            _, heights = noise.on_lattice(tilt, points)
            table = np.fft.fft(heights, axis=1) / self.periods[k]
            return Axis(step, self.periods[k], table, 0, window.low - window.centre)
        first, final = int(index.min()), int(index.max())
        t = step[:, None] * np.arange(first, final + 1)
        is_smeared = self.setting.is_smeared(k)
        table = noise.whole_line(tilt, window.centre, t)[1] if is_smeared else noise.on_window(tilt, window, t)[1]
        return Axis(step, 0, table / window.length[:, None], first, window.low)

    @property
    def log_unit(self) -> Array:
        """log p is this plus the logarithm of the sum over frequencies."""
        total = self.setting.n * self.tilted.log_moment
        for k, noise in enumerate(self.setting.noises):
            total = total + self._unit(k, noise)
        return np.asarray(total)

    def _unit(self, k: int, noise: NoiseOnSum) -> Array:
        window, tilt, nothing = self.windows[k], self.tilt[:, k], np.zeros((len(self.tilt), 1))
        if self.periods[k]:
            points = window.low[:, None] + (window.length / self.periods[k])[:, None] * np.arange(self.periods[k])
            return noise.on_lattice(tilt, points)[0]
        if self.setting.is_smeared(k):
            return noise.whole_line(tilt, window.centre, nothing)[0]
        return noise.on_window(tilt, window, nothing)[0]

    def powers(self, axes: list[Axis], index: list[Any]) -> Any:
        """phi^n about the centre, less what is taken out, at every frequency: (K, N, J), or (K, N) for one sum."""
        seen = np.flatnonzero(self.seen.any(axis=0))
        offsets = self.record.values[:, seen] - self.tilted.mean[:, None, :]
        weights = self.tilted.weights[:, seen]
        is_inner = self.rank > 1
        waves: Any = None
        for k in range(1 if is_inner else 0, self.rank):
            turned = waves_of(axes[k].step[:, None] * offsets[:, :, k], index[k])
            waves = turned if waves is None else waves * turned
        if not is_inner:
            phi = (waves @ weights[:, :, None])[:, :, 0]
        else:
            middle = index[0][:, :, 0]
            unit = axes[0].step[:, None] * offsets[:, :, 0]
            if middle.any():
                waves = waves * waves_of(unit, middle)
            strip = waves_of(unit, index[0][:, 0] - middle[:, :1])
            phi = (waves * weights[:, None, :]) @ strip.swapaxes(1, 2)
        found = _power(phi, self.setting.n)
        chosen = np.flatnonzero(~np.isnan(self.atom[:, 0]))
        if chosen.size:
            found[chosen] -= self.rows(chosen)._few_off(phi[chosen], axes, index, chosen)
        return found

    def _few_off(self, phi: Any, axes: list[Axis], index: list[Any], chosen: Any) -> Any:
        """The part of phi^n with at most two records off the atom, of rows that have one."""
        away = self.atom - self.tilted.mean
        angle: Any = np.zeros(phi.shape)
        for k in range(self.rank):
            turn = _along_rows(axes[k].step[chosen] * away[:, k], index[k]) * index[k][chosen]
            angle = angle + (turn if turn.ndim == phi.ndim else turn[:, :, None])
        a, n = _along_rows(self._atom_mass, phi) * np.exp(1j * angle), self.setting.n
        b = phi - a
        return _power(a, n - 2) * (a * a + n * a * b + 0.5 * n * (n - 1) * b * b) if n > 1 else phi

    @property
    def _atom_mask(self) -> Any:
        return np.isclose(self.record.values, self.atom[:, None, :], rtol=1e-12, atol=1e-300).all(axis=2)

    @property
    def _atom_mass(self) -> Array:
        return np.asarray(np.where(self._atom_mask, self.tilted.weights, 0.0).sum(axis=1))

    @property
    def apart(self) -> Array:
        """E of the noise with at most two records off the atom, in the unit of the sum over frequencies."""
        total = np.zeros(len(self.tilt))
        chosen = np.flatnonzero(~np.isnan(self.atom[:, 0]))
        for start in range(0, chosen.size, APART_ROWS):
            part = chosen[start : start + APART_ROWS]
            total[part] = self.rows(part).apart_terms()[1].sum(axis=1)
        return total

    def apart_terms(self) -> tuple[Array, Array]:
        """The sums (K, A, r) with no record off the atom, with one, and with two, and what each adds (K, A)."""
        n, mass, atom = self.setting.n, self._atom_mass[:, None], self.atom[:, None, :]
        off = np.where(self._atom_mask, 0.0, self.tilted.weights)
        seen = np.flatnonzero(off.max(axis=0) > UNSEEN_POINT)
        off, moved = off[:, seen], self.record.values[:, seen] - atom
        one, two = np.triu_indices(seen.size)
        pairs = np.where(one == two, 0.5, 1.0) * off[:, one] * off[:, two] * n * (n - 1)
        sums = np.concatenate([n * atom, n * atom + moved, n * atom + moved[:, one] + moved[:, two]], axis=1)
        logs = np.zeros(sums.shape[:2])
        for k, noise in enumerate(self.setting.noises):
            at = sums[:, :, k]
            logs += noise.log_noise(at) - self.tilt[:, k][:, None] * at - self._unit(k, noise)[:, None]
        ways = [mass**n, n * mass ** (n - 1) * off]
        ways.append(pairs * mass ** max(n - 2, 0))
        with np.errstate(over="ignore", under="ignore"):
            return sums, np.concatenate(ways, axis=1) * np.exp(logs)

    def terms(self) -> tuple[Any, Array]:
        """phi^n times the noise's transforms, weighted so that their real part sums to p; and the rim's part."""
        axes, index = self.axes()
        values = self.powers(axes, index)
        outer = self.outer_weights(index)
        for k in range(1, self.rank):
            outer = outer * axes[k].noise(index[k])
        if self.rank == 1:
            values = (values * outer * axes[0].noise(index[0]))[:, :, None]
            return values, self.rim(np.abs(values), index)
        values = values * outer[:, :, None] * axes[0].noise(index[0])
        return values, self.rim(np.abs(values), index)

    def outer_weights(self, index: list[Any]) -> Any:
        """Each frequency of the outermost sum counts for itself and its mirror image."""
        last = index[-1]
        weights = np.where(last == 0, 1.0, 2.0)
        period = self.periods[-1]
        if period and period % 2 == 0:
            weights = np.where(last == period // 2, 1.0, weights)
        return weights

    def _has_rim(self, k: int, index: list[Any]) -> bool:
        """Whether frequencies lie beyond those taken: not on a lattice all of whose frequencies are."""
        if not self.periods[k]:
            return True
        size = index[-1].max() if k == self.rank - 1 else None
        return bool(size < self.periods[k] // 2) if size is not None else not self._is_whole(k)

    def _is_whole(self, k: int) -> bool:
        return bool(self.periods[k]) and 2 * int(self.halves[:, k].max()) + 1 >= self.periods[k]

    def rim(self, sizes: Array, index: list[Any]) -> Array:
        """What lies beyond the frequencies taken, in every direction, from how the absolute terms (K, N, J) fade."""
        rim = np.zeros(len(sizes))
        rows = len(sizes)
        if self._has_rim(self.rank - 1, index):
            outer = index[-1].reshape(rows, -1)
            count = int(outer.max()) + 1
            layers = sizes.sum(axis=2).reshape(rows, count, -1).sum(axis=2)
            rim += _beyond(layers)
        if self.rank > 1 and self._has_rim(0, index):
            rim += _beyond(_folded(sizes.sum(axis=1)))
        if self.rank == 3 and self._has_rim(1, index):
            per = 2 * int(self.halves[:, 1].max()) + 1
            rim += _beyond(_folded(sizes.sum(axis=2).reshape(rows, -1, per).sum(axis=1)))
        return rim


def _folded(layers: Array) -> Array:
    """Layers (K, 2 H + 1) on both sides of the centre, by their distance from it: (K, H + 1)."""
    half = layers.shape[1] // 2
    return np.concatenate(
        [layers[:, half : half + 1], layers[:, half + 1 :] + layers[:, half - 1 :: -1][:, :half]], axis=1
    )


def _beyond(layers: Array) -> Array:
    """The sum of the layers beyond the last of (K, H + 1), as if they went on fading by the power seen at the end.

    A normal law's terms fade by a power that is large and grows, so that little is left; those of few records, or of
    many at one value, by a small one.
    """
    half = layers.shape[1] - 1
    if half < 1:
        return np.zeros(len(layers))
    last = layers[:, -2:].max(axis=1) if half > 3 else layers[:, -1]
    before = int(0.75 * half)
    earlier = layers[:, max(before - 1, 0) : before + 1].max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log(earlier / last) / np.log(half / max(before, 1) if before < half else 2.0)
    power = np.clip(np.nan_to_num(power, nan=0.0, posinf=100.0), 0.0, 100.0)
    return np.asarray(last * half / np.maximum(power - 1, 0.1))


def _largest_atom(record: Record, tilted: Tilted, atoms: Array, n: int) -> Array:
    """The value (K, r) that holds all records with a visible probability; NaN where none does."""
    rows, r = len(record.logs), record.values.shape[2]
    best, found = np.zeros(rows), np.full((rows, r), np.nan)
    for atom in atoms:
        mask = np.isclose(record.values, atom, rtol=1e-12, atol=1e-300).all(axis=2)
        mass = np.where(mask, tilted.weights, 0.0).sum(axis=1)
        better = mass > best
        best = np.where(better, mass, best)
        found = np.where(better[:, None], atom, found)
    with np.errstate(divide="ignore"):
        visible = n * np.log(np.minimum(best, 1.0)) > np.log(VISIBLE_ATOM)
    return np.where(visible[:, None], found, np.nan)


def waves_of(angle: Array, index: Any) -> Any:
    """e^{i angle index} for angles (K, M) and whole-number indices (K, N), (K, N, M): powers of one wave."""
    first, last = int(index.min()), int(index.max())
    if (last - first) > 4 * index.shape[1]:  # few of a wide range
        return np.exp(1j * index[:, :, None] * angle[:, None, :])
    ladder = np.empty((len(angle), last - first + 1, angle.shape[1]), complex)
    ladder[:, 0] = np.exp(1j * first * angle)
    if last > first:
        ladder[:, 1:] = np.exp(1j * angle)[:, None, :]
        np.multiply.accumulate(ladder, axis=1, out=ladder)
    if index.shape[1] == last - first + 1 and (index == np.arange(first, last + 1)).all():
        return ladder
    return np.take_along_axis(ladder, (index - first)[:, :, None], axis=1)


def _along_rows(values: Array, like: Any) -> Array:
    """One value for each row (K,), shaped to multiply an array whose first axis is the rows."""
    return values.reshape((-1,) + (1,) * (like.ndim - 1))


def _power(base: Any, n: int) -> Any:
    """Repeated squaring: its relative error is n rounding errors, in phase too."""
    result = np.ones_like(base)
    with np.errstate(under="ignore"):
        while n:
            if n & 1:
                result = result * base
            n >>= 1
            if n:
                base = base * base
    return result
