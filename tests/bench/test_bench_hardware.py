"""Facts about the machine in `transduce bench` are correct."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transduce.bench import hardware
from transduce.bench.hardware import matrix_rate, peak_memory, processor


def test_the_processor_is_read_from_cpuinfo(tmp_path: Path) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor\t: 0\nmodel name\t: Abacus 3000\n", encoding="utf-8")
    assert processor(listing) == "Abacus 3000"
    assert processor(tmp_path / "none")


def test_the_matrix_rate_is_measured_with_the_reported_size_and_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(256, "float32", 1, 3))
    before = torch.get_num_threads()
    result = matrix_rate("cpu", threads=before + 1)
    assert (result["size"], result["precision"]) == (256, "float32")
    assert 1e8 < result["flops_per_second"] < 1e13
    assert torch.get_num_threads() == before


def test_the_peak_memory_is_that_of_this_process() -> None:
    before = peak_memory("cpu")
    block = bytearray(os.urandom(1 << 16)) * (1 << 12)  # 256 MiB, each page written to
    grown = peak_memory("cpu")
    assert grown > before + len(block) // 2
    del block
    assert peak_memory("cpu") >= grown
    code = "from transduce.bench.hardware import peak_memory; print(peak_memory('cpu'))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(child.stdout) < grown // 2


def test_the_peak_memory_is_measured_without_procfs_too(tmp_path: Path) -> None:
    assert peak_memory("cpu", tmp_path / "none") >= peak_memory("cpu") // 2
