"""Several methods on one text: where they agree, and what each of them costs."""

from slalom import Explainer
from slalom.compare import compare, correlations, explained

found = compare(
    Explainer(), "The food was great but the service was awful.", ["slalom", "linear", "occlusion"]
)
for name, explanation in explained(found).items():
    print(f"{name:10} {explanation.cost.queries:5} queries, first {explanation.top(1)[0][0]!r}")
print(correlations(found))
