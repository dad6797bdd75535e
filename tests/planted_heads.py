"""Heads with known parameters, and their parameters in the order of the slopes (slalom.fit.readings)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slalom.surrogate import Heads, Slalom


def planted(n: int, parts: int = 1, ceiling: float | None = None, seed: int = 0, outputs: int = 1) -> Heads:
    rng = np.random.default_rng(seed)
    made = tuple(
        Slalom(
            rng.normal(size=(n, outputs)),
            rng.normal(size=n),
            0.3 * rng.normal(size=outputs),
            float(rng.normal()),
        )
        for _ in range(parts)
    )
    return Heads(made, np.full(outputs, 0.2), None if ceiling is None else np.full(outputs, ceiling))


def vector(surrogate: Heads, column: int = 0) -> np.ndarray:
    """Importances by part, values by part, background last in each; the log of the ceiling at the end."""
    s = [np.append(part.importances, part.background_importance) for part in surrogate.parts]
    v = [np.append(part.values[:, column], part.background_value[column]) for part in surrogate.parts]
    ceiling = [] if surrogate.ceiling is None else [np.log(surrogate.ceiling[[column]])]
    return np.concatenate([*s, *v, *ceiling])


def from_vector(theta: np.ndarray, parts: int, offset: float = 0.2) -> Heads:
    """One output."""
    capped = len(theta) % (2 * parts)
    s, v = theta[: len(theta) - capped].reshape(2, parts, -1)
    made = tuple(Slalom(v[h, :-1], s[h, :-1], v[h, -1:], float(s[h, -1])) for h in range(parts))
    return Heads(made, np.full(1, offset), np.exp(theta[-1:]) if capped else None)


def differences(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """(m, P) slopes of a function (P,) → (m,)."""
    steps = h * np.eye(len(at))
    return np.stack([(function(at + e) - function(at - e)) / (2 * h) for e in steps], axis=1)


def soft_removal(surrogate: Heads, units: np.ndarray, column: int = 0) -> np.ndarray:
    """∂y/∂log λ for every token of a copy, by the closed form of one SLALOM (Eq. 5) and the slope of tanh."""
    linear = sum((part.gradient(units)[:, column] for part in surrogate.parts), start=np.zeros(1))
    if surrogate.ceiling is None:
        return linear
    level = sum(part.output(units)[column] for part in surrogate.parts) / surrogate.ceiling[column]
    return linear / np.cosh(level) ** 2
