"""The module as compilers and exporters take it, converted models kept, and what the processor can really do.

A conversion takes seconds to minutes, and is the same for the same weights. It is kept in the user's cache
folder under a digest of everything it depends on: weights, config, the modules' classes and the versions of
what converts. A folder appears there as a whole or not at all, so that any number of processes can use it.

Some virtual machines announce AMX, Intel's matrix unit, and then end the process that uses it; oneDNN, which
computes int8 and bfloat16 products for torch and OpenVINO, believes the announcement. And where oneDNN is
told to keep below AVX-512 and the processor has it, OpenVINO generates code of both kinds in one kernel
(steps of 8 numbers, registers of 16) and reads beyond its memory.
"""

from __future__ import annotations

import getpass
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

from slalom.errors import InputError, MissingExtraError, ModelError
from slalom.files import cache_folder, new_folder
from slalom.models.torch.forward import Forward, find_logits, is_changed, is_pretrained

_log = logging.getLogger(__name__)

MOST = 8
"""Models that are kept: those used last."""
_PACKAGES = ("torch", "transformers", "onnx", "onnxscript", "slalom-xai")
_FILE = "model.onnx"


@contextmanager
def converted(module: nn.Module, convert: Callable[[Path], None]) -> Iterator[Path]:
    """The file that `convert` makes of the module: from the cache, or made and kept there."""
    key = _key(module)
    where = None if key is None else _kept(cache_folder() / "converted" / key, convert)
    if where is not None:
        yield where / _FILE
        return
    with tempfile.TemporaryDirectory(prefix="slalom-", ignore_cleanup_errors=True) as folder:
        convert(Path(folder) / _FILE)
        yield Path(folder) / _FILE


def _kept(where: Path, convert: Callable[[Path], None]) -> Path | None:
    """The folder that holds the converted model; None where none can be written."""
    if not (where / _FILE).is_file():
        try:
            with new_folder(where) as fresh:
                convert(fresh / _FILE)
        except InputError as error:
            if not (where / _FILE).is_file():  # else another process was faster
                _log.info("the converted model is not kept: %s", error)
                return None
    with suppress(OSError):
        where.touch()
    _tidy(where.parent)
    return where


def _tidy(folder: Path) -> None:
    with suppress(OSError):
        kept = [part for part in folder.iterdir() if part.is_dir() and not part.name.startswith(".")]
        for part in sorted(kept, key=lambda part: part.stat().st_mtime, reverse=True)[MOST:]:
            shutil.rmtree(part, ignore_errors=True)


def _key(module: nn.Module) -> str | None:
    """A digest of all that a conversion depends on; None where classes do not tell what the module does."""
    kinds = {type(part) for part in module.modules()}
    known = all(kind.__module__.startswith(("torch.nn.modules.", "transformers.")) for kind in kinds)
    if not known or any(is_changed(part) for part in module.modules()):
        _log.info("the converted model is not kept: the module has code of its own")
        return None
    digest = hashlib.sha256()
    config = getattr(module, "config", None)
    parts = [
        f"{name} {type(part).__module__}.{type(part).__qualname__}" for name, part in module.named_modules()
    ]
    for fact in (*map(_version, _PACKAGES), str(config), *parts):
        digest.update(fact.encode() + b"\0")
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        digest.update(content.data)
    return digest.hexdigest()[:40]


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


_LIMIT = "ONEDNN_MAX_CPU_ISA"
_WITHOUT_AMX = "AVX512_CORE_FP16"
_RAISED = "AVX512_CORE"
_ENOUGH = ("ALL", "DEFAULT")
_WITHOUT_VNNI = ("SSE41", "AVX", "AVX2", "AVX512_CORE")
_VNNI = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
_TRIAL = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"


_set_here: list[str] = []
"""The libraries for whose sake the limit was set; it may have come too late for torch's own oneDNN."""
_openvino_raised: list[str] = []
"""The limits that OpenVINO was not told of."""


@cache
def amx_is_broken() -> bool:
    """Whether the processor announces AMX and cannot do it; tried in a process of its own."""
    if "amx_tile" not in _cpu_flags():
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


@contextmanager
def enough_for_openvino() -> Iterator[None]:
    """Inside, oneDNN may use AVX-512 where the processor has it. OpenVINO reads the limit once, at first."""
    limit = os.environ.get(_LIMIT, "").upper()
    if not limit or limit in _ENOUGH or limit.startswith("AVX512") or "avx512f" not in _cpu_flags():
        yield
        return
    if not _openvino_raised and _is_loaded("openvino_intel_cpu_plugin"):
        raise ModelError(
            f"OpenVINO was in use before, with {_LIMIT}={limit}, and may end the process on a processor with "
            f"AVX-512; set {_LIMIT}={_RAISED} or take it out before Python starts, or use engine='onnx'"
        )
    _openvino_raised.append(limit)
    os.environ[_LIMIT] = f"{_RAISED}_VNNI" if "VNNI" in limit else _RAISED
    try:
        yield
    finally:
        os.environ[_LIMIT] = limit


def _is_loaded(library: str) -> bool:
    try:
        return library in Path("/proc/self/maps").read_text()
    except OSError:
        return False


def _cpu_flags() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return []


def int8_saturates() -> bool:
    """Whether sums of int8 products are cut off at 16 bits: on x86 processors without VNNI instructions.

    A processor that cannot be asked is taken for one of them, which costs one bit of the weights.
    """
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return False
    return os.environ.get(_LIMIT, "").upper() in _WITHOUT_VNNI or _VNNI.isdisjoint(_cpu_flags())


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


_COMPILERS = ("g++", "clang++", "c++", "cl")
_KERNELS = "TORCHINDUCTOR_CACHE_DIR"


def keep_kernels_apart() -> None:
    """Compiled kernels are kept without a word of this limit, and one of another limit ends the process."""
    limit = os.environ.get("ATEN_CPU_CAPABILITY")
    usual = str(Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}")  # as torch itself says
    if limit and os.environ.get(_KERNELS, usual) == usual:
        os.environ[_KERNELS] = f"{usual}_{limit}"


def need_compiler() -> None:
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([named] if named else _COMPILERS)):
        wanted = named or "g++ or clang++"
        raise ModelError(
            f"the engine 'compile' needs a C++ compiler, and there is no {wanted} on the PATH; install one, "
            "name it in the environment variable CXX, or use engine='onnx'"
        )


INPUTS = ("ids", "types")


class Graph(nn.Module):
    """(B, L) ids and token types → (B, k) logits; shares the weights of the module."""

    def __init__(self, forward: Forward):
        super().__init__()
        self.module = forward.module
        self._forward = forward
        self.training = False
        # Without a mask Hugging Face models skip the masking, which would find nothing to hide here.
        own = is_pretrained(forward.module) and forward.names("attention_mask")
        self._more: dict[str, object] = {"attention_mask": None} if own else {}

    def forward(self, ids: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        logits = find_logits(self._forward.apply(ids, types, **self._more))
        return logits if logits.ndim == 2 else logits.reshape(-1, 1)


@contextmanager
def exported(forward: Forward, purpose: str) -> Iterator[Path]:
    """The module as an ONNX file with free batch size and length, which may go afterwards."""
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "onnx", purpose)
    if not hasattr(torch.export.Dim, "DYNAMIC"):
        raise ModelError(f"{purpose} needs torch 2.6 or later; this is {torch.__version__}")
    if forward.device.type != "cpu":
        raise ModelError(f"{purpose} runs on the CPU, and the model is on {forward.device}; use 'compile'")

    def convert(path: Path) -> None:
        with still():
            _export(Graph(forward), path)

    with converted(forward.module, convert) as path:
        yield path


def _export(graph: Graph, path: Path) -> None:
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    # Two tensors: where one is given for both inputs, the exporter takes them for the same input.
    ids, types = torch.ones(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=torch.long)
    with torch.no_grad():
        try:
            program = torch.onnx.export(
                graph,
                (ids, types),
                dynamo=True,
                dynamic_shapes=(free, free),
                input_names=list(INPUTS),
                output_names=["logits"],
                verbose=False,
            )
        except Exception as error:
            reason = next((line for line in str(error.__cause__ or error).splitlines() if line.strip()), "")
            raise ModelError(
                f"{type(graph.module).__name__} cannot be exported to ONNX: {reason.strip()[:300]}; "
                "use engine='eager' or 'compile'"
            ) from error
    if program is not None:
        program.save(path)


_TALKERS = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")


@contextmanager
def still(*more: str) -> Iterator[None]:
    """Keeps the remarks of exporters and compilers about their own inner life from the user."""
    loggers = [logging.getLogger(name) for name in (*_TALKERS, *more)]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
