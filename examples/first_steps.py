"""One call: which words made the bundled sentiment model say what it says."""

import slalom

explanation = slalom.explain("The food was great but the service was awful.")
print(explanation.prediction, explanation.probabilities.round(2))
for word, share in explanation.top(3):
    print(f"{word:10} {share:+.2f}")
print("without 'awful':", round(explanation.predict([i for i in range(10) if i != 8]), 2))
