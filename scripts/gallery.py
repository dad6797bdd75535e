"""Makes the live reports of docs/gallery.md when the site is built: each is one page that works offline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File, Files

REVIEW = "The food was great but the service was awful, and the waiter never came back. I will not return."


def on_files(files: Files, config: Any) -> Files:
    """Adds the reports to the site."""
    for name, page in reports():
        files.append(File.generated(config, f"gallery/{name}.html", content=page))
    return files


def reports() -> Iterator[tuple[str, str]]:
    """Reports by name, all of the bundled model or of a function."""
    from slalom import Explainer
    from slalom.compare import compare

    explainer = Explainer()
    yield "review", explainer(REVIEW, every_class=True).to_html()
    yield "sentences", explainer(REVIEW, units="sentences").to_html()
    yield "occlusion", explainer(REVIEW, method="occlusion").to_html()
    yield "compare", compare(explainer, REVIEW, ["slalom", "linear", "occlusion", "random"]).to_html()
    texts = ["an honest, moving film", "overlong and dull", "not bad at all"]
    yield "several", explainer(texts, effort="fast").to_html()
    yield (
        "topics",
        Explainer(topics, labels=["sport", "music", "food"])("a cold soup after the match").to_html(),
    )


def topics(texts: list[str]) -> list[list[float]]:
    """A rule by hand with three labels."""
    words = ({"match", "goal"}, {"song", "band"}, {"soup", "cake"})
    return [[2.0 * len(known & set(text.lower().split())) for known in words] for text in texts]
