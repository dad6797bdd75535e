"""The `slalom` command, and `python -m slalom`."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """The command line; Ctrl-C ends it with one line, also while it is still being imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    from slalom.cli import main as run

    run()


def _interrupt(_: int, frame: FrameType | None) -> None:
    """As Python does it; but an import ends at once: half of one, compiled code answers with other errors."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"error: interrupted\n")
            os._exit(128 + signal.SIGINT)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
