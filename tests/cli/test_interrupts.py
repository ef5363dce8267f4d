"""A signal to stop is raised as ``Interrupted``. An ignored signal stays ignored (``nohup``)."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from envbench.engine.signals import raise_on_signals
from envbench.errors import Interrupted


@pytest.fixture
def ignored_hangup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_to_stop_is_raised_with_its_exit_code(name: str, code: int) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as stopped, raise_on_signals():
        signal.raise_signal(number)
    assert stopped.value.exit_code == code
    assert signal.getsignal(number) is before


def test_an_ignored_hangup_stays_ignored(ignored_hangup: None) -> None:
    with raise_on_signals():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
