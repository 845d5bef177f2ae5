"""Samples of memory and file sizes over time, and their growth with its confidence interval."""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Self

from tests.support.load import rss

_EVERY_SECONDS = 2.0
#: Samples within this many seconds are one point, as close samples are not independent.
_BLOCK_SECONDS = 30.0
_MIN_MEASUREMENTS = 7


def student_quantile_95(degrees_of_freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's t (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees_of_freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees_of_freedom**2)


@dataclass(frozen=True)
class GrowthRate:
    """Growth per hour with its 95 % interval, by least squares; unknown with fewer than seven points."""

    average: float
    growth_per_hour: float = math.nan
    margin: float = math.nan

    @property
    def low(self) -> float:
        return self.growth_per_hour - self.margin

    def __str__(self) -> str:
        return "too short" if math.isnan(self.growth_per_hour) else f"{self.growth_per_hour:+.0f} ± {self.margin:.0f}"


def growth_rate(samples: Sequence[tuple[float, float]]) -> GrowthRate:
    """Return the growth rate of a quantity, from samples ``(seconds, value)``."""
    blocks: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for at, value in samples:
        blocks[int(at // _BLOCK_SECONDS)].append((at, value))
    block_means = [tuple(map(fmean, zip(*block, strict=True))) for block in blocks.values()]
    average = fmean(value for _, value in samples) if samples else math.nan
    if len(block_means) < _MIN_MEASUREMENTS:
        return GrowthRate(average)
    mean_time, mean_value = (fmean(column) for column in zip(*block_means, strict=True))
    time_variation = sum((x - mean_time) ** 2 for x, _ in block_means)
    growth_per_second = sum((x - mean_time) * (y - mean_value) for x, y in block_means) / time_variation
    rest = sum((y - mean_value - growth_per_second * (x - mean_time)) ** 2 for x, y in block_means)
    degrees_of_freedom = len(block_means) - 2
    margin = student_quantile_95(degrees_of_freedom) * math.sqrt(rest / degrees_of_freedom / time_variation)
    return GrowthRate(average, growth_per_second * 3600, margin * 3600)


class ResourceSampler(threading.Thread):
    """A context manager that samples processes and folders every two seconds.

    Args:
        processes: name → function that returns the current process ids, whose memory is added up.
        sizes: name → function that returns the current number of bytes.
    """

    def __init__(
        self, processes: Mapping[str, Callable[[], Iterable[int]]], sizes: Mapping[str, Callable[[], int]]
    ) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._sizes = sizes
        self._stopped = threading.Event()
        #: Name → ``(seconds, MB)``.
        self.samples: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def run(self) -> None:
        while not self._stopped.wait(_EVERY_SECONDS):
            now = time.monotonic()
            for name, pids in self._processes.items():
                try:
                    self.samples[name].append((now, sum(map(rss, pids()))))
                except (OSError, StopIteration, AssertionError):  # it is being restarted
                    continue
            for name, size in self._sizes.items():
                self.samples[name].append((now, size() / 2**20))

    def since(self, name: str, begin: float) -> list[tuple[float, float]]:
        """Return the samples that were taken at or after ``at``."""
        return [sample for sample in self.samples[name] if sample[0] >= begin]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()
