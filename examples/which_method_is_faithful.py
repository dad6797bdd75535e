"""Judge methods by protocols: how the model's answer falls when the strongest tokens go."""

from tempfile import TemporaryDirectory

from slalom import Explainer
from slalom.data import Document
from slalom.evaluate.run import evaluate

TEXTS = ("The food was great but the service was awful.", "Cold soup and a rude waiter; we left early.")
documents = [Document(text, id=str(place)) for place, text in enumerate(TEXTS)]
with TemporaryDirectory() as folder:
    results = evaluate(Explainer(), documents, ["slalom", "random"], ["deletion", "cost"], folder)
for row in results.measurements:
    print(row.document, row.method, row.number, row.value)
