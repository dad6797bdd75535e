"""The errors a caller can meet. Each message says what was wrong, what was given and what to do."""

from __future__ import annotations


class SlalomError(Exception):
    """Anything this library refuses to do."""


class InputError(SlalomError):
    """The text, the options or the data cannot be used as given."""


class ModelError(SlalomError):
    """The model cannot be loaded, cannot be reached, or answered with something unusable."""


class FitError(SlalomError):
    """No sound explanation can be made of what the model answered."""


class MissingExtraError(SlalomError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'slalom-xai[{extra}]'")


class SlalomWarning(UserWarning):
    """Something the user should know but that does not stop the work."""


class StoppedError(SlalomError):
    """Nothing more can be asked for now: a limit is reached, or an endpoint is gone; what was done stays."""
