"""By what rules other tools say that something got slower, in a few lines each.

What each reads: times of a unit of work, of the old side and of the new one, a list a process.

* **pyperf** 2.10, ``pyperf compare_to``: all values of all processes are one sample a side; a
  two-sided Student's t-test of equal variances at 95 %, and the means' order (``is_significant``
  and ``tscore`` in psf/pyperf, pyperf/_utils.py; ``CompareResult`` in pyperf/_compare.py). By
  default three values a process (of 20; here of as many as there are); no ``--min-speed``. Its
  table of critical values is rounded to three digits; here they are exact.
* **asv** 0.6, ``asv continuous``: medians that differ by more than ``--factor`` 1.1, and a
  Mann-Whitney U test with p under 0.002 (``_is_result_better`` in airspeed-velocity/asv,
  asv/commands/compare.py; ``is_different`` in asv/_stats.py; the default in
  asv/commands/common_args.py). By default two rounds, a process each, of at most five samples
  (``TimeBenchmark`` in airspeed-velocity/asv_runner, asv_runner/benchmarks/time.py).
* **benchstat**: a Mann-Whitney U test with p of at most 0.05, and the medians' order (``Compare``
  in golang/perf, benchmath/anone.go; ``DefaultThresholds`` and ``FormatDelta`` in
  benchmath/sample.go). Ten runs a side are advised (cmd/benchstat/main.go): here a process each.

None of them has a verdict "inconclusive", and none says what it could have found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median, variance

from scipy.special import stdtrit
from scipy.stats import mannwhitneyu

Side = Sequence[Sequence[float]]  # times of a unit of work, a list a process
Rule = Callable[[Side, Side], bool]  # old, new -> is the new one told to be slower?


def pyperf(old: Side, new: Side) -> bool:
    a, b = [x for each in old for x in each[:3]], [x for each in new for x in each[:3]]
    error = (variance(a) + variance(b)) / 2 / len(a) * 2  # of equally many values
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
