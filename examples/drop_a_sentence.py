"""The point of it: a transformer averages what words say, so scores must not be added up.

What happens to the score when a whole sentence goes? LIME and SHAP answer by adding up the scores of its
words. SLALOM answers with its surrogate. The model itself is asked at the end. Needs `slalom-xai[methods]`.
"""

import math

from slalom import Explainer

SENTENCES = ("The first half is wonderful and funny.", "The second half is boring.")
explainer = Explainer()
text = " ".join(SENTENCES)
found = {name: explainer(text, target="positive", method=name) for name in ("slalom", "lime", "kernel_shap")}


def log_odds(text: str) -> float:
    p = explainer.predict(text)["positive"]
    return math.log(p / (1 - p))


print(f"{'without':40} {'slalom':>7} {'lime':>7} {'shap':>7} {'the model':>10}")
for sentence in SENTENCES:
    start = text.index(sentence)
    spans = found["slalom"].tokens.spans
    gone = [i for i, (a, b) in enumerate(spans) if start <= a and b <= start + len(sentence)]
    kept = [i for i in range(len(spans)) if i not in gone]
    slalom = found["slalom"].predict(kept) - found["slalom"].predict(range(len(spans)))
    added = [-found[name].score()[gone].sum() for name in ("lime", "kernel_shap")]
    model = log_odds(text.replace(sentence, "").strip()) - log_odds(text)
    print(f"{sentence:40} {slalom:+7.2f} {added[0]:+7.2f} {added[1]:+7.2f} {model:+10.2f}")
