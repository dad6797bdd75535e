"""An explanation as a file for programs and as a page for people; both hold nothing but themselves."""

from pathlib import Path
from tempfile import TemporaryDirectory

import slalom

explanation = slalom.explain("Fresh fish, friendly people, fair prices.")
with TemporaryDirectory() as folder:
    explanation.save(Path(folder) / "explanation.json")
    explanation.to_html(Path(folder) / "report.html")
    again = slalom.Explanation.load(Path(folder) / "explanation.json")
    print(again.top(2) == explanation.top(2), (Path(folder) / "report.html").stat().st_size > 10_000)
