"""Signals stop a process between steps, or at once."""

import os
import signal
import threading

import pytest

from transduce.errors import Interrupted
from transduce.system.signals import signals_as_interrupt, stop_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_requests_a_stop_and_the_second_interrupts(number: signal.Signals) -> None:
    with stop_signals() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), number)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_previous_handlers_are_restored() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with stop_signals():
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before
    with pytest.raises(ValueError, match="bad"), stop_signals():
        raise ValueError("bad")
    with signals_as_interrupt():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_and_says_how_to_continue(number: signal.Signals) -> None:
    with pytest.raises(Interrupted, match="the same command continues"), signals_as_interrupt():
        os.kill(os.getpid(), number)
    with pytest.raises(ValueError, match="bad"), signals_as_interrupt():
        raise ValueError("bad")


def test_work_that_may_be_abandoned_ends_at_the_first_signal() -> None:
    def hang_up() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        return 2

    with stop_signals() as interrupted:
        assert interrupted.run_unless_stopped(lambda: 1) == 1
        assert interrupted.run_unless_stopped(hang_up) is None
        assert interrupted()
        assert interrupted.run_unless_stopped(lambda: 1) is None


def test_a_sighup_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_as_interrupt(), stop_signals() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_are_not_handled_outside_the_main_thread() -> None:
    found: list[bool] = []

    def work() -> None:
        with signals_as_interrupt(), stop_signals() as interrupted:
            found.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
