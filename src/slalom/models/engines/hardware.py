"""What the processor can really do.

Some virtual machines announce AMX, Intel's matrix unit, and then end the process that uses it. oneDNN,
which computes int8 and bfloat16 products for torch and OpenVINO, believes the announcement.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from slalom.errors import ModelError

_LIMIT = "ONEDNN_MAX_CPU_ISA"
_WITHOUT_AMX = "AVX512_CORE_FP16"
_WITHOUT_VNNI = ("SSE41", "AVX", "AVX2", "AVX512_CORE")
_VNNI = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
_TRIAL = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"


_set_here: list[str] = []
"""The libraries for whose sake the limit was set; it may have come too late for torch's own oneDNN."""


@cache
def amx_is_broken() -> bool:
    """Whether the processor announces AMX and cannot do it; tried in a process of its own."""
    try:
        announced = "amx_tile" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    if not announced:
        return False
    bare = {key: value for key, value in os.environ.items() if key != _LIMIT}
    done = subprocess.run([sys.executable, "-c", _TRIAL], env=bare, capture_output=True, check=False)
    return done.returncode < 0


def tame(before: str) -> None:
    """Keeps oneDNN in a library from an AMX that does not work; to be called before its import."""
    if _LIMIT in os.environ or not amx_is_broken():
        return
    if before in sys.modules:
        raise ModelError(_advice(f"{before} is loaded already"))
    os.environ[_LIMIT] = _WITHOUT_AMX
    _set_here.append(before)


def int8_saturates() -> bool:
    """Whether sums of int8 products are cut off at 16 bits: on x86 processors without VNNI instructions.

    A processor that cannot be asked is taken for one of them, which costs one bit of the weights.
    """
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        flags = []
    return os.environ.get(_LIMIT, "").upper() in _WITHOUT_VNNI or _VNNI.isdisjoint(flags)


def need_bfloat16(device: torch.device) -> None:
    """Refuses bfloat16 where it would end the process."""
    limited = _LIMIT in os.environ and not _set_here
    if device.type == "cpu" and not limited and amx_is_broken():
        raise ModelError(_advice("bfloat16 would end this process"))


def _advice(what: str) -> str:
    return (
        f"this machine announces AMX instructions and cannot run them, and {what}; set the environment "
        f"variable {_LIMIT}={_WITHOUT_AMX} before Python starts, or use engine='eager'"
    )
