"""A reply whose other quantities cannot be true is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.record_factories import make_windows

from envbench.model import Histogram, Job, Returns
from envbench.process.reply import REPLY, TRACE, TRACE_BYTES, Reply, Unusable, read_reply

JOB = Job(
    run_id="r", adapter="a:b", family="atari", task="Pong-v5", numenv=2, env_instances=3,
    frame_skip=4, settings={}, seed=0,
)  # fmt: skip


def read(folder: Path, job: Job = JOB, **given: Any) -> Reply | None:
    reply = Reply(ok=True, measured=make_windows([10], calls=[10]), **given)
    (folder / REPLY).write_bytes(msgspec.json.encode(reply))
    return read_reply(folder, job)


def test_a_reply_with_other_quantities_is_read(tmp_path: Path) -> None:
    latency = Histogram(values=[5, 7], counts=[1, 2])
    returns = Returns(calls=2, counts=[2, 1, 1], ages=Histogram(values=[1], counts=[1]))
    reply = read(tmp_path, latency=latency, returns=returns)
    assert reply is not None
    assert (reply.latency, reply.returns) == (latency, returns)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"latency": Histogram(values=[5], counts=[])}, "latencies"),
        ({"latency": Histogram(values=[5], counts=[-1])}, "latencies"),
        ({"latency": Histogram(values=[-5], counts=[1])}, "latencies"),
        ({"returns": Returns(calls=2, counts=[2, 2], ages=Histogram())}, "returns"),
        ({"returns": Returns(calls=2, counts=[2, 2, 2], ages=Histogram())}, "returns"),
    ],
)
def test_impossible_quantities_are_refused(tmp_path: Path, given: Any, why: str) -> None:
    with pytest.raises(Unusable, match=why) as refused:
        read(tmp_path, **given)
    assert refused.value.failure.reason == "invalid-figure"


def test_a_trace_that_is_too_large_fails_a_verification_and_says_what_to_do(tmp_path: Path) -> None:
    with (tmp_path / TRACE).open("wb") as file:
        file.truncate(TRACE_BYTES + 1)
    with pytest.raises(Unusable, match="larger than 64 MiB") as refused:
        read(tmp_path, msgspec.structs.replace(JOB, mode="verify"))
    assert "fewer environments (--numenv)" in refused.value.failure.hint
    measured = read(tmp_path, msgspec.structs.replace(JOB, spot=60))
    assert measured is not None
    assert measured.trace is None  # it showed no steps
