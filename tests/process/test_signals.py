"""A signal to stop is raised as ``Interrupted`` or held back. An ignored one stays ignored."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from envbench.errors import Interrupted
from envbench.process.signals import raise_on_signals, signals_held


@pytest.fixture
def ignored_hangup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def hangups() -> Iterator[list[int]]:
    """The hangups that a handler of the program has received."""
    received: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: received.append(number))
    yield received
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


def test_a_signal_that_is_held_arrives_after_the_block(hangups: list[int]) -> None:
    with signals_held():
        signal.raise_signal(signal.SIGHUP)
        assert hangups == []
    assert hangups == [signal.SIGHUP]


@pytest.mark.parametrize("block", [raise_on_signals, signals_held])
def test_a_handler_that_c_code_installed_becomes_the_default(
    monkeypatch: pytest.MonkeyPatch,
    hangups: list[int],
    block: Callable[[], AbstractContextManager[None]],
) -> None:
    """For such a handler, as of a program that embeds Python, ``signal.signal`` returns None."""
    install = signal.signal

    def of_c(number: int, handler: Any) -> Any:
        before = install(number, handler)
        return None if number == signal.SIGHUP else before

    monkeypatch.setattr(signal, "signal", of_c)
    with block():
        pass
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
