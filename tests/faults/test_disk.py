"""A disk that fails, fills up or loses files damages nothing; the short form."""

import errno
from collections.abc import Iterator

import pytest
from conftest import threads_kept

from faults.disk import Work, check_outcome, files_limited, inject_fault, possible_faults, works


@pytest.fixture(scope="module")
def works_by_name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Work]]:
    with threads_kept():
        yield works(tmp_path_factory.mktemp("disk"))


@pytest.mark.parametrize(
    ("name", "some"),
    [
        *(("train", 5), ("resume", 3), ("average", 3), ("export-ctranslate2", 3)),
        *(("export-huggingface", 3), ("import", 3), ("translate", 3)),
    ],
)
def test_a_failing_call_is_reported_and_the_same_command_resumes(
    name: str, some: int, works_by_name: dict[str, Work]
) -> None:
    calls = works_by_name[name].rehearse()
    faults = possible_faults(works_by_name[name], calls, 1)
    for at, fault in faults[:: len(faults) // some]:
        _, wrong = inject_fault(works_by_name[name], at, fault)
        assert not wrong, f"{calls[at]}, {fault.name}: {wrong}"


@pytest.mark.parametrize("size", [0, 4096, 65536])
def test_a_limit_on_file_sizes_ends_training_clearly_and_it_resumes_later(
    size: int, works_by_name: dict[str, Work]
) -> None:
    work = works_by_name["train"]
    work.reset()
    with files_limited(size):
        result = work.run()
    assert result.status == 1
    assert check_outcome(work, result, errno.EFBIG, set())[1] == ""
