"""The errors a caller can meet. Each message says what was wrong, what was given and what to do."""

from __future__ import annotations


class SlalomError(Exception):
    """Anything this library refuses to do.

    Example:
        >>> import slalom
        >>> try:
        ...     slalom.explain("  ")
        ... except slalom.errors.SlalomError as error:
        ...     print(type(error).__name__)
        InputError
    """


class InputError(SlalomError):
    """The text, the options or the data cannot be used as given.

    Example:
        >>> import slalom
        >>> slalom.explain("not bad", method="magic")
        Traceback (most recent call last):
        slalom.errors.InputError: ...
    """


class ModelError(SlalomError):
    """The model cannot be loaded, cannot be reached, or answered with something unusable.

    Example:
        >>> from slalom import Explainer
        >>> Explainer(lambda texts: [float("nan")] * len(texts))("not bad")
        Traceback (most recent call last):
        slalom.errors.ModelError: ...
    """


class FitError(SlalomError):
    """No sound explanation can be made of what the model answered.

    Example:
        >>> from slalom.errors import FitError, SlalomError
        >>> issubclass(FitError, SlalomError)
        True
    """


class MissingExtraError(SlalomError):
    """An optional dependency is not installed.

    Args:
        package: what is missing.
        extra: the extra that brings it.
        purpose: what it is needed for.

    Example:
        >>> from slalom.errors import MissingExtraError
        >>> print(MissingExtraError("pandas", "frame", "to_frame()"))
        to_frame() needs pandas; install it with: pip install 'slalom-xai[frame]'
    """

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'slalom-xai[{extra}]'")


class SlalomWarning(UserWarning):
    """Something the user should know but that does not stop the work.

    Example:
        >>> import warnings
        >>> from slalom.errors import SlalomWarning
        >>> warnings.simplefilter("ignore", SlalomWarning)
    """


class StoppedError(SlalomError):
    """Nothing more can be asked for now: a limit is reached, or an endpoint is gone; what was done stays.

    Example:
        >>> from slalom.errors import SlalomError, StoppedError
        >>> issubclass(StoppedError, SlalomError)
        True
    """
