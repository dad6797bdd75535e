"""Every claim of both papers, numbered, with what tests it here or the reason why nothing does.

`python -m slalom_lab.experiments._shared.claims docs/reproduction.md` prints docs/claims.md, with the
verdicts of that report. The report itself has the same list.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slalom_lab.experiments._shared.claim_verdicts import counted, verdict

SLALOM, ATTENTION = "SLALOM paper", "Attention paper"


@dataclass(frozen=True)
class Claim:
    """One claim, with an experiment, a test or a reason, or several of them."""

    paper: str
    where: str
    text: str
    experiment: str | None = None
    """Whose verdict it is: an experiment, or a part of one as "experiment, part"."""
    test: str | None = None
    """The test that proves or refutes it: file::function."""
    reason: str | None = None
    """Why it is not tested here, or what the test says beyond yes."""

    @property
    def name(self) -> str | None:
        """The experiment alone."""
        return None if self.experiment is None else self.experiment.partition(",")[0]


def _of(paper: str, *rows: tuple[str, str, str | None, str | None, str | None]) -> list[Claim]:
    return [Claim(paper, *row) for row in rows]


_THEORY = "tests/theory/"
CLAIMS: tuple[Claim, ...] = (
    *_of(
        SLALOM,
        ("Table 1, introduction", "LIME, gradients and Shapley values recover linear models and GAMs", None,
         "tests/explainers/test_planted_models.py::test_additive_methods_recover_linear_weights",
         "and not a SLALOM: test_each_fails_on_the_others_function; C-LIME, which perturbs numbers, has no "
         "meaning for tokens"),
        ("Prop. 4.1", "without positions and special tokens one transformer layer represents no generalised "
         "additive model but a constant", None,
         _THEORY + "test_stacks.py::test_without_positions_and_special_tokens_copies_change_nothing", None),
        ("Cor. B.2", "nor a linear model, whose weights do not depend on positions", None,
         _THEORY + "test_stacks.py::test_an_additive_model_drifts_and_a_constant_one_does_not",
         "with test_without_positions_and_special_tokens_copies_change_nothing, since a linear model is "
         "one of them"),
        ("Cor. 4.2", "nor does a stack of layers", None,
         _THEORY + "test_stacks.py::test_without_positions_and_special_tokens_copies_change_nothing",
         "also with rotary and ALiBi positions"),
        ("Section 4.3", "the feed-forward part cannot store enough to undo the softmax", None,
         _THEORY + "test_perceptron_bound.py::test_bert_cannot_store_its_sequences", None),
        ("Section 4.3", "special tokens and positions do not change the finding", "fig3_repeats",
         None, "with them copies do move a real model, up to a limit"),
        ("Section 5.1", "importances are unique up to a constant, and with a fixed sum unique", None,
         "tests/fit/test_ana.py::test_gives_a_slalom_back_from_2d_minus_1_queries",
         "outputs fix the parameters (Prop. 5.2), but for the constant that "
         "tests/test_surrogate.py::test_normalising_changes_nothing_but_the_sum adds"),
        ("Section 5.1", "a token alone gets its value; among others its importance is its weight", None,
         "tests/test_surrogate.py::test_the_only_token_without_background_gets_its_value", None),
        ("Prop. 5.1", "a transformer can be any SLALOM, with several heads and layers too", None,
         _THEORY + "test_planted.py::test_with_several_heads_and_layers_it_is_the_same_slalom", None),
        ("Prop. 5.2", "a SLALOM is recovered from 2|V| − 1 outputs", None,
         "tests/fit/test_ana.py::test_gives_a_slalom_back_from_2d_minus_1_queries", None),
        ("Section 5.3", "the solution from single tokens and pairs is unstable", "fig9_ana", None,
         "as its error over the context"),
        ("Section 5.3, D", "random short sequences of a text's own tokens suffice to fit SLALOM to it",
         "table12_samples, the fewest samples are competitive with SHAP", None,
         "by deletion; over copies of all sizes: all_scales"),
        ("Section 5.4", "a token whose weight is zero is a token left out", None,
         "tests/test_surrogate.py::test_removal_is_evaluation_without_the_position", None),
        ("Section 5.4, B.7",
         "the gradient of removing a token softly is α (v − F); linearised scores, v eˢ, are "
         "another reading (maths 2)", None,
         "tests/test_surrogate.py::test_gradient_equals_finite_differences",
         "the gradient is proved to be α (v − F); it ranks tokens as v eˢ does only where F is small"),
        ("Section 5.2", "SLALOM is about 8 times faster than LIME or SHAP for the same number of samples",
         "table11_runtime, as many times faster as the paper's", None,
         "the criterion is that of Table 11's text"),
        ("B.7", "SLALOM scores convert to Shapley values", None,
         "tests/test_shapley.py", "in polynomial time, where the paper has a sum over all subsets"),
        ("C.1", "SLALOM generalises to several classes", "multi_class", None, None),
        ("C.1", "with an importance for each token and a value for each token and class as free "
         "parameters", None,
         "tests/experiments/test_claims_directly.py::test_a_slalom_of_several_classes_has_so_many_parameters",
         "|V| importances up to a constant and, as they sum to zero over classes, |V| (K − 1) values: "
         "K |V| − 1"),
        ("Fig. 3", "transformers fail to capture a linear relation, whatever their depth", "fig3_repeats",
         None, None),
        ("Fig. 4 a, b, Table 6", "SLALOM describes transformers trained on linear data better than a linear "
         "model and a GAM do", "table6_surrogates", None, None),
        ("Section 6.2", "so it does although the GAM has considerably more parameters", None,
         "tests/experiments/test_claims_directly.py::test_the_gam_has_more_parameters_than_slalom", None),
        ("Fig. 4 c, d, Tables 7 and 8", "fitted to a transformer trained on a SLALOM's labels, SLALOM gives "
         "log-odds back", "recovery, log-odds are recovered", None, None),
        ("Fig. 4 c, d, Tables 7 and 8", "and the parameters",
         "recovery, parameters are recovered", None, None),
        ("F.2, Table 7", "errors of log-odds fall with the number of layers",
         "recovery, errors of log-odds fall with the layers", None, None),
        ("F.2, Table 8", "errors of parameters show no trend over layers",
         "recovery, errors of parameters show no trend over layers", None, None),
        ("E.2", "in real data values are correlated with importances",
         "fig5_scatter, values go with importances (E.2)", None,
         "how strong it should be is lost in the copy of the text: more than none counts"),
        ("E.2, Fig. 7", "values taken from word counts of IMDB and importances that go with them are a "
         "realistic distribution",
         "table2a_naive_bayes, word counts (E.2, Fig. 7)", None,
         "in that values that models give words, and their importances, go with such counts; recovery plants "
         "SLALOMs with values by counts in IMDB and shows the distribution"),
        ("Fig. 5", "words for and against are important and differ in the sign of their values; some words "
         "have a value and little importance", "fig5_scatter", None, None),
        ("Fig. 6 (A)", "Shapley values do not recover a linear relation from transformers, but do from a "
         "fully connected network", "fig6_shap_repeats", None, None),
        ("Fig. 8", "scatters of further models support Table 6", "table6_surrogates", None,
         "as numbers: the same models and surrogates"),
        ("Fig. 9 (F.3)", "Ana's error on log-odds grows with the context, faster than SGD's",
         "fig9_ana, Ana's error grows faster than SGD's", None, None),
        ("Fig. 9 (F.3)", "SGD's error on log-odds stays almost constant over the context",
         "fig9_ana, SGD's error stays almost constant", None, None),
        ("Fig. 9 (F.3)", "at long contexts Ana's error on log-odds is above SGD's",
         "fig9_ana, Ana's error is above SGD's at the longest context", None, None),
        ("Fig. 9 (F.3)", "parameter errors of both are alike", "fig9_ana, parameter errors are alike", None,
         None),
        ("F.3", "so it is for different sizes of the vocabulary",
         "fig9_ana, parameter errors are alike", None,
         "over vocabularies of 10 and 20 words, each of which is told"),
        ("Fig. 10 (F.4)", "importances find many of the words that annotators marked", "fig10_human_map",
         None, None),
        ("Fig. 11 (F.4)", "the whole review of Fig. 5", "fig11_review", None, None),
        ("Table 2a", "values and linearised scores agree with Naive Bayes", "table2a_naive_bayes", None,
         None),
        ("E.3", "Table 2a hardly varies with the number of layers",
         "table2a_naive_bayes, depth (E.3)", None, "for a BERT of 1, 2 and 6 layers"),
        ("Tables 4 and 5", "accuracies and parameters of the trained models",
         "table2a_naive_bayes, accuracies (Table 4)", None,
         "ours stand in its rows; pretrained weights of the paper's models are not to be had offline"),
        ("Table 2b", "importances predict human attention better than LIME and SHAP",
         "table2b_human_attention, importances are better than LIME and SHAP", None, None),
        ("Table 2b", "IG and Grad are almost at random level",
         "table2b_human_attention, IG and Grad are almost at random level", None, None),
        ("Table 2c", "linearised scores outperform LIME and SHAP in deletion",
         "table2c_deletion, linearised scores outperform LIME and SHAP", None, None),
        ("Table 2c", "IG and Grad are far behind in deletion", "table2c_deletion, IG and Grad are far behind",
         None, None),
        ("Section 6.3", "for human attention importances are needed",
         "table2b_human_attention, importances are not behind values and linearised scores", None, None),
        ("Section 6.3", "for deletion values and linearised scores are",
         "table2c_deletion, values and linearised scores, not importances (Section 6.3)", None, None),
        ("Section 6.3", "different tasks need different scores",
         "table2c_deletion, values and linearised scores, not importances (Section 6.3)", None,
         "of deletion; the claim is that of this row and of the one on human attention together"),
        ("Table 9 (F.5)", "linearised scores are on par with LIME and SHAP in insertion", "table9_insertion",
         None, None),
        ("Table 10 (F.6)", "SLALOM outperforms LIME and SHAP on a network that is no transformer",
         "table10_tfidf", None, None),
        ("Table 11 (F.7)", "SLALOM is 8 to 10 times faster than LIME and almost 20 times faster than SHAP",
         "table11_runtime, as many times faster as the paper's", None,
         "without a GPU: the ratios are compared, up to a factor of two"),
        ("Table 11 (F.7)", "SLALOM is faster than LIME and SHAP for as many samples",
         "table11_runtime", None, None),
        ("F.7", "since it is fitted to shorter sequences",
         "table2c_deletion, SLALOM is fitted to shorter sequences than LIME (F.7)", None, None),
        ("F.7", "run time is mainly that of forward passes", None, None,
         "depends on machine and model; docs/results/speed.md has what is spent beside them"),
        ("F.7", "backward passes require much memory", None, None,
         "of a GPU, which the machines this runs on lack; docs/results/evaluation-movies.md counts the "
         "passes"),
        ("Table 11 (F.7), second part", "so it is for a larger model",
         "table11_runtime, a larger model", None, "with MiniLM: the copy of the paper's text does not say "
         "which model; its seconds are 25.04 (SHAP), 15.73 (LIME), 0.29 (IG), 0.06 (Grad) and 0.62 (SLALOM)"),
        ("Table 11 (F.7)", "gradients and integrated gradients are the quickest",
         "table11_runtime, gradients and integrated gradients are the quickest", None, None),
        ("F.7", "longer sequences require more samples for the same quality",
         "table12_samples, longer texts need more samples", None,
         "by how alike two seeds' scores are; docs/results/budgets.md has quality by budget and length"),
        ("F.6", "where the kind of model is unknown, model-agnostic methods may be preferred", None, None,
         "advice; the library tells fidelity with every explanation instead"),
        ("Table 12 (F.7)", "500 samples are competitive with SHAP",
         "table12_samples, the fewest samples are competitive with SHAP", None, None),
        ("F.7", "500 samples are as few as theory predicts for texts of 200 tokens", None,
         "tests/fit/test_ana.py::test_gives_a_slalom_back_from_2d_minus_1_queries",
         "2 · 200 − 1 = 399 outputs of a SLALOM suffice; of other models they do not give the best fit"),
        ("Table 12 (F.7)", "more samples improve deletion", "table12_samples, more samples improve it", None,
         None),
        ("Table 13 (F.8)", "values and linearised scores predict human attention for a large model and for "
         "Mamba, whose importances do not", "table13_larger", None, "with far smaller models"),
        ("Table 13 (F.8)", "Mamba's importances do not predict human attention",
         "table13_larger, Mamba, importances do not predict", None, None),
        ("F.8", "the ROC scores are in the range of those of smaller models", None, None,
         "how near is not said; both stand in the reports of table13_larger and table2b_human_attention"),
        ("F.6", "of the ten most downloaded models of the hub nine are BERTs", None, None,
         "a count of that year; no network here"),
        ("Table 13 (F.8)", "BLOOM-7B and Mamba-2.8B themselves", None, None, "7 and 2.8 billion parameters "
         "do not fit the machines this runs on"),
        ("Section 7", "the same incapacity may explain what is seen in time-series forecasting", None, None,
         "a conjecture about another field"),
        ("Section 7", "evaluation with users is future work", None, None, "needs people"),
        ("Summary", "comparable quality at lower cost",
         "table12_samples, the fewest samples are competitive with SHAP", None, "with table11_runtime"),
        ("The thesis", "SLALOM suits transformers better than additive surrogates", "all_scales", None,
         "on copies of a text of all sizes"),
    ),
    *_of(
        ATTENTION,
        ("Gradient theorem", "the gradient of the one-layer classifier in closed form", "attention_gradient",
         _THEORY + "test_gradients.py::test_gradient_equals_autograd_at_every_position",
         "at [CLS] the published form lacks the query's term"),
        ("Gradient theorem, remarks", "several heads by linearity; mean, norms and G×I follow", None,
         _THEORY + "test_gradients.py::test_readings", None),
        ("Gradient theorem, insight", "a token contributes if its attention is not 0 and its value deviates "
         "from the average", None,
         _THEORY + "test_attention_bounds.py::test_effects_are_those_of_the_model_and_within_their_bounds",
         "so it is for what taking it out does, α (v − f) / (1 − α); the gradient has a term α W_v W_ℓ that "
         "does not vanish with the deviation"),
        ("LIME theorem", "LIME's coefficients are (3/2) W_ℓ (α v − α_h v_h) approximately", "attention_lime",
         None, "the factor is 1 where f is linear in the presence of words"),
        ("LIME theorem", "so they are over the documents of a data set", "attention_error", None, None),
        ("LIME theorem, insight", "a token contributes if α v deviates from the average",
         "attention_error, words contribute as α v deviates from the average", None, "by the order of words"),
        ("LIME theorem, remark", "so they are for several heads", None,
         _THEORY + "test_lime_limit.py::test_coefficients_of_a_real_layer_equal_enumeration",
         "the exact limit is; the factor 3/2 misses as for one head"),
        ("Theorem of Mardaoui and Garreau", "LIME converges to a combination of three expectations at every "
         "bandwidth", None,
         _THEORY + "test_lime_bandwidth.py::test_the_published_constants_give_the_same_coefficients", None),
        ("Its corollary", "with a large bandwidth to 3 (E_j − Ē)", None,
         _THEORY + "test_lime_limit.py::test_expectations_and_coefficients_equal_enumeration",
         "up to the mean of the coefficients and to 1/d; that it is weighted least squares: "
         "tests/theory/test_lime_limit.py::test_lime_itself_agrees_within_its_sampling_error_for_99_words"),
        ("Quotient lemma", "E[X/Y] is near E[X]/E[Y]", None,
         _THEORY + "test_lemmas.py::test_as_printed_it_fails_where_the_constant_is_below_one",
         "refuted as printed where C < 1; holds with C in place of C²"),
        ("Mean and variance lemma", "of H_S given |S| and ℓ ∉ S", None,
         _THEORY + "test_lime_limit.py::test_the_lemmas_against_enumeration", None),
        ("Figure of explainers", "different explainers yield different explanations", "attention_explainers",
         None, None),
        ("Figure of attention", "heads attend to different tokens",
         "attention_heads, heads attend to different tokens", None, None),
        ("Figure of attention", "attention does not depend on values", None,
         "tests/experiments/test_claims_directly.py::test_attention_does_not_depend_on_values",
         "so it cannot tell the direction of a token's effect; whether it tells its size: the row on "
         "correlation"),
        ("Histogram task", "two minima, one with uninformative attention", "attention_histogram",
         _THEORY + "test_histogram.py::test_settled_solutions_lie_lower",
         "that they count, and what they attend to; whether they are minima stands apart"),
        ("Histogram task", "both solutions are local minima", "attention_histogram, both are local minima",
         None, "by slope and Hessian (`slalom.theory.histogram.curvature`)"),
        ("Is attention explanation?", "at equal output attention can be another (Jain and Wallace)", None,
         _THEORY + "test_attention_bounds.py::test_three_tokens_against_a_fine_grid",
         "how far is computed exactly; an upper bound on effects remains"),
        ("Is attention explanation?", "if it is, it should correlate with importance of features",
         "attention_heads, attention correlates with the importance of tokens", None,
         "with the size of what taking a token out does"),
        ("Is attention explanation?", "single-layer models reach near-perfect accuracy with uninformative "
         "attention (Dyck grammars, Wen et al.)", None, None, "cited; the example here is the histogram task "
         "instead"),
        ("Conclusion", "methods are very unlike", "attention_explainers, methods are very unlike", None,
         "different is another claim (figure of explainers): very unlike is a rank correlation below 0.5"),
        ("Conclusion", "none of them is recommended", None, None, "advice"),
        ("Future directions", "Anchors meet attention", None,
         _THEORY + "test_anchors.py::test_the_closed_form_is_the_shortest_anchor", None),
        ("Future directions", "skip connection and non-linearities", None,
         _THEORY + "test_perceptron.py::test_output_and_gradient_are_those_of_autograd", None),
        ("Future directions", "more layers", None, None,
         "no closed form is known; random stacks are asked about copies only"),
    ),
)  # fmt: skip


def markdown(verdicts: Mapping[str, str] | None = None, page: str = "") -> str:
    """The list as a table, with the verdicts of a report by experiment, which stand on a page."""
    lines = ["| | paper | where | claim | here |", "|---|---|---|---|---|"]
    for number, claim in enumerate(CLAIMS, 1):
        lines.append(
            f"| {number} | {claim.paper} | {claim.where} | {cell(claim.text)} | "
            f"{cell(_here(claim, verdicts, page))} |"
        )
    return "\n".join(lines)


def _here(claim: Claim, verdicts: Mapping[str, str] | None, page: str) -> str:
    parts = []
    if claim.experiment is not None:
        told = "" if verdicts is None else f": {verdict(claim, verdicts)}"
        part = claim.experiment.removeprefix(str(claim.name))
        parts.append(f"[{claim.name}]({page}#{claim.name}){part}{told}")
    if claim.test is not None:
        parts.append(f"`{claim.test}`")
    if claim.reason is not None:
        parts.append(claim.reason if parts else f"not tested: {claim.reason}")
    return "; ".join(parts)


def verdicts_of(report: str) -> dict[str, str]:
    """The verdicts of a report, by experiment, with the size of the run: of the lines of its summary."""
    found = re.findall(
        r"^\| \[(\w+)\]\(#\w+\) \| .* \| ([^|]+) \| ([^|]+) \| [\d ]+\|$", report, re.MULTILINE
    )
    told = {name: f"{verdict} ({size})" for name, verdict, size in found}
    for name, _, size in found:
        section = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", report, re.MULTILINE | re.DOTALL)
        parts = {} if section is None else parts_of(name, section[1])
        told |= {part: f"{verdict} ({size})" for part, verdict in parts.items()}
    return told


def parts_of(name: str, section: str) -> dict[str, str]:
    """The verdicts of an experiment's parts, of the lines of its section, under "experiment, part"."""
    lines = re.findall(r"^- ([^:*]+): \*\*(.+?)\*\*: ", section, re.MULTILINE)
    return {f"{name}, {part}": verdict for part, verdict in lines}


def document(report: str) -> str:
    """docs/claims.md, with the verdicts of docs/reproduction.md."""
    return (
        "# Every claim of both papers\n\n"
        "What tests each claim here: an experiment, with its verdict and the size of its run from "
        "[reproduction.md](reproduction.md), or a test, which the suite runs; or the reason why nothing "
        "does. Made by "
        "`python -m slalom_lab.experiments._shared.claims docs/reproduction.md`.\n\n"
        f"{counted(CLAIMS, verdicts_of(report))}\n\n"
        f"{markdown(verdicts_of(report), 'reproduction.md')}\n"
    )


def cell(text: str) -> str:
    """A text as the cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    print(document(Path(sys.argv[1]).read_text(encoding="utf-8")), end="")
