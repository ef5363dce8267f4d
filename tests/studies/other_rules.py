"""The rules by which other tools decide that something got slower, in a few lines each.

Each rule reads the times of a unit of work on the old and the new side, one list per process.

* **pyperf** 2.10, ``pyperf compare_to``: all values of all processes are one sample per side. The
  rule is a two-sided Student's t-test of equal variances at 95 %, and the order of the means
  (``is_significant`` and ``tscore`` in psf/pyperf, pyperf/_utils.py; ``CompareResult`` in
  pyperf/_compare.py). The default is three values per process (of 20 processes; here, of all there
  are) and no ``--min-speed``. Its table of critical values is rounded to three digits; here they
  are exact.
* **asv** 0.6, ``asv continuous``: medians that differ by more than ``--factor`` 1.1, and a
  Mann-Whitney U test with p under 0.002 (``_is_result_better`` in airspeed-velocity/asv,
  asv/commands/compare.py; ``is_different`` in asv/_stats.py; the default in
  asv/commands/common_args.py). The default is two rounds, one process each, of at most five samples
  (``TimeBenchmark`` in airspeed-velocity/asv_runner, asv_runner/benchmarks/time.py).
* **benchstat**: a Mann-Whitney U test with p of at most 0.05, and the order of the medians
  (``Compare`` in golang/perf, benchmath/anone.go; ``DefaultThresholds`` and ``FormatDelta`` in
  benchmath/sample.go). It recommends ten runs per side (cmd/benchstat/main.go). Here a run is a
  process.

None of them has a verdict "inconclusive", and none says which slowdown it could have found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median, variance

from scipy.special import stdtrit
from scipy.stats import mannwhitneyu

Side = Sequence[Sequence[float]]  # times of a unit of work, one list per process
Rule = Callable[[Side, Side], bool]  # old, new -> is the new side reported as slower?


def pyperf(old: Side, new: Side) -> bool:
    a, b = [x for each in old for x in each[:3]], [x for each in new for x in each[:3]]
    error = (variance(a) + variance(b)) / 2 / len(a) * 2  # both have the same number of values
    if error == 0:
        return fmean(b) > fmean(a)
    score = (fmean(b) - fmean(a)) / math.sqrt(error)
    return score >= float(stdtrit(len(a) + len(b) - 2, 0.975))


def asv(old: Side, new: Side) -> bool:
    a, b = [x for each in old[:2] for x in each[:5]], [x for each in new[:2] for x in each[:5]]
    different = mannwhitneyu(a, b, method="exact").pvalue < 0.002
    return bool(different) and median(a) < median(b) / 1.1


def benchstat(old: Side, new: Side) -> bool:
    a, b = [fmean(each) for each in old], [fmean(each) for each in new]
    return bool(mannwhitneyu(a, b, method="exact").pvalue <= 0.05) and median(b) > median(a)


RULES: dict[str, Rule] = {
    "pyperf compare_to": pyperf,
    "asv continuous": asv,
    "benchstat": benchstat,
}
