"""How many odd inputs, and which: SLALOM_FUZZ times as many cases, drawn from SLALOM_FUZZ_SEED.

Tests import it as `fuzz.fuzz`. A case that fails is named by its words, from which its generator comes.
"""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

SLOW = 120.0
"""Seconds of computing beyond which a case counts as hanging; how busy the machine is does not count."""


def cases(n: int) -> int:
    """How many cases to run where a plain run of the suite has `n`."""
    return n * int(os.environ.get("SLALOM_FUZZ", "1"))


def seed() -> int:
    """What the cases are drawn from."""
    return int(os.environ.get("SLALOM_FUZZ_SEED", "15"))


def draws(name: str, n: int) -> Iterator[tuple[str, random.Random]]:
    """`cases(n)` generators of their own, each with the words that name it in a report."""
    print(f"SLALOM_FUZZ_SEED={seed()}")
    for case in range(cases(n)):
        words = f"{name}, case {case} of seed {seed()}"
        yield words, random.Random(words)


def survives(
    name: str, n: int, attempt: Callable[[random.Random], Any], *allowed: type[BaseException]
) -> int:
    """Runs every case; fails with the first few that raised anything but `allowed`, or that took too long.

    Returns how many ended without an error, so that a test can tell whether it still reaches anything.
    """
    fine, broken = 0, []
    for words, rng in draws(name, n):
        start = time.process_time()
        try:
            attempt(rng)
            fine += 1
        except allowed:
            pass
        except Exception:
            broken.append(f"{words}\n{traceback.format_exc()}")
        if time.process_time() - start > SLOW:
            broken.append(f"{words}: took {time.process_time() - start:.0f} s")
    assert not broken, f"{len(broken)} of {cases(n)} cases:\n\n" + "\n".join(broken[:5])
    return fine


def text(rng: random.Random) -> str:
    """A text that somebody might send."""
    kind = rng.randrange(8)
    if kind < 3:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))
    if kind == 3:
        return rng.choice(TEXTS)
    if kind == 4:
        return "".join(chr(rng.randrange(1, 0x300)) for _ in range(rng.randint(0, 30)))
    if kind == 5:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randint(1, 10)))
    if kind == 6:
        return rng.choice(WORDS) * rng.randint(1, 40)
    return " ".join(rng.choice(TEXTS) for _ in range(rng.randint(1, 3)))


def value(rng: random.Random) -> Any:
    """A value that may be of any kind."""
    return rng.choice(
        (
            lambda: rng.choice(PLAIN),
            lambda: rng.randint(-3, 3),
            lambda: rng.choice((-1, 1)) * 10 ** rng.randint(0, 40),
            lambda: rng.uniform(-2, 2),
            lambda: rng.choice((-1, 1)) * 10.0 ** rng.randint(-320, 308),
            lambda: text(rng),
            lambda: [value(rng) for _ in range(rng.randint(0, 3))],
            lambda: {text(rng): value(rng) for _ in range(rng.randint(0, 2))},
        )
    )()


WORDS = (
    "the",
    "food",
    "was",
    "great",
    "but",
    "service",
    "awful",
    "not",
    "café",
    "3.5",
    "don't",
    "!",
    "👍",
    "the",
)
TEXTS = (
    "",
    " ",
    "\n\t\r",
    "\x00",
    "a\x00b",
    "\ufeff",
    "\u200b",
    "\u202eevil\u202c",
    "\ud83d",
    "half \udfff a character",
    "[CLS] [SEP] </s> <pad>",
    "<script>alert(1)</script>",
    "[red]markup[/red] [/nothing]",
    "\x1b[31mred",
    "你好，世界",
    "สวัสดีครับ",
    "مرحبا بالعالم",
    "é" * 20,
    "e\u0301" * 5,
    "👩‍👩‍👧‍👦",
    "%s %d {0} {x}",
    "../../etc/passwd",
    "x" * 3000,
    "good " * 100,
    "1e309",
    "NaN",
    "null",
)
PLAIN = (
    None,
    True,
    False,
    "",
    "auto",
    "nan",
    "0",
    b"",
    1j,
    float("nan"),
    float("inf"),
    -float("inf"),
    -0.0,
    10**5000,
)
