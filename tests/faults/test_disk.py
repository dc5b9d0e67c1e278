"""A disk that fails, fills up or loses files harms nothing that is whole; the short form."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import threads_kept

from faults.disk import Work, files_limited, fitting, judge, strike, works
from faults.failing_calls import FAULTS, Disk, Fault


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Work]]:
    with threads_kept():
        yield works(tmp_path_factory.mktemp("disk"))


@pytest.mark.parametrize(
    ("name", "some"),
    [
        *(("train", 5), ("resume", 3), ("average", 3), ("export-ctranslate2", 3)),
        *(("export-huggingface", 3), ("import", 3), ("translate", 3)),
    ],
)
def test_whatever_call_fails_it_is_told_and_the_same_command_goes_on(
    name: str, some: int, made: dict[str, Work]
) -> None:
    calls = made[name].rehearse()
    faults = fitting(made[name], calls, 1)
    for at, fault in faults[:: len(faults) // some]:
        _, wrong = strike(made[name], at, fault)
        assert not wrong, f"{calls[at]}, {fault.name}: {wrong}"


@pytest.mark.parametrize("size", [0, 4096, 65536])
def test_files_that_may_not_grow_end_training_clearly_and_it_goes_on_later(
    size: int, made: dict[str, Work]
) -> None:
    work = made["train"]
    work.reset()
    with files_limited(size):
        result = work.run()
    assert result.status == 1
    assert judge(work, result, errno.EFBIG, set())[1] == ""


@pytest.mark.parametrize("fault", [one for one in FAULTS if not one.removes], ids=lambda f: f.name)
def test_a_fault_strikes_the_call_that_it_is_meant_for(fault: Fault, tmp_path: Path) -> None:
    with (
        Disk(tmp_path, 0, fault) as disk,
        pytest.raises(OSError, match=os.strerror(fault.number)),
    ):
        (tmp_path / "file").write_text("whole")
    assert disk.met is not None
    assert disk.met.path == "file"
    assert not (tmp_path / "file").exists()
