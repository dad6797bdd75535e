from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from handmade import HOSTILE
from rounding import same_answers, same_scores
from serving import HANGS, Slow, client, tiny_model
from slalom import Explainer, Explanation
from slalom.errors import InputError, ModelError
from slalom.models.target import probabilities
from slalom.models.torch.module import ModuleModel
from slalom.perturb import from_rows
from slalom.web import create_app, executor, tasks
from slalom.web.executor import CancellableModel, Cancellation
from slalom.web.schemas import ExplainRequest
from zoo import TEXT, tiny

PAIR = ("the food was great", "the service was awful")


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {"tiny": tiny_model(), "slow": Slow().model()}


@pytest.fixture(scope="module")
def http(models: dict[str, Any]) -> Iterator[httpx.Client]:
    with client(models) as given:
        yield given


def explained(http: httpx.Client, **order: Any) -> dict[str, Any]:
    response = http.post("/api/explain", json={"text": TEXT, **order})
    assert response.status_code == 200, response.text
    return response.json()


def refused(http: httpx.Client, path: str, status: int = 422, **order: Any) -> str:
    response = http.post(path, json=order)
    assert response.status_code == status, response.text
    assert set(response.json()) == {"detail"}
    return response.json()["detail"]


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"effort": "faithful", "target": "positive", "granularity": "words", "seed": 3},
        {"budget": 300, "target": 0, "every_class": True, "granularity": "types"},
        {"method": "occlusion"},
        {"method": "integrated_gradients", "options": {"steps": 8}},
        {"method": "attention"},
        {"method": "slalom_sgd", "budget": 200, "granularity": "types", "options": {"epochs": 2}},
    ],
    ids=lambda order: order.get("method", "slalom") + "-" + "-".join(order),
)
def test_an_explanation_is_the_one_that_python_gives(
    http: httpx.Client, models: dict[str, Any], order: dict[str, Any]
):
    got = Explanation.from_dict(explained(http, **order)["explanation"])
    call = {key: value for key, value in order.items() if key != "options"} | order.get("options", {})
    wanted = Explainer(models["tiny"])(TEXT, **call)
    assert (got.target, got.method, got.labels) == (wanted.target, wanted.method, wanted.labels)
    assert got.tokens.strings == wanted.tokens.strings
    assert got.cost.queries == wanted.cost.queries
    for name, scores in wanted.scores.items():
        same_scores(got.scores[name], scores)
    for label, other in wanted.classes.items():
        same_scores(got.of(label).score(), other.score())


def test_a_pair_is_explained_on_one_side(http: httpx.Client, models: dict[str, Any]):
    answer = explained(http, text=PAIR[0], pair=PAIR[1], side="second", method="occlusion")
    got = Explanation.from_dict(answer["explanation"])
    wanted = Explainer(models["tiny"])(PAIR, side="second", method="occlusion")
    same_scores(got.score(), wanted.score())


@pytest.mark.parametrize("path", ["explain", "compare", "predict"])
def test_a_side_by_its_old_name_is_taken_and_told(http: httpx.Client, path: str):
    only: dict[str, Any] = {"explain": {"method": "occlusion"}, "compare": {"methods": ["occlusion"]}}
    body = {"text": PAIR[0], "pair": PAIR[1], **only.get(path, {})}
    first, old, new = (
        http.post(f"/api/{path}", json=body | side)
        for side in ({"side": "first"}, {"explain": "second"}, {"side": "second"})
    )
    assert old.headers["warning"] == '299 slalom "explain is called side now"'
    assert "warning" not in new.headers
    assert _explained_tokens(old) == _explained_tokens(new) != _explained_tokens(first)
    assert "".join(_explained_tokens(new)) == PAIR[1].replace(" ", "")
    both = http.post(f"/api/{path}", json=body | {"side": "first", "explain": "second"})
    assert (both.status_code, "give side alone" in both.json()["detail"]) == (422, True)


def _explained_tokens(answer: httpx.Response) -> list[str]:
    found = answer.json()
    if "comparison" in found:
        found["explanation"] = found["comparison"]["methods"]["occlusion"]
    return found["explanation"]["tokens"]["strings"] if "explanation" in found else found["tokens"]


class Stepwise(Slow):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = threading.Semaphore(0)

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.steps.acquire(timeout=HANGS)
        return super().__call__(texts)


def test_progress_is_told_while_queries_are_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executor, "CHUNK", 300)
    slow = Stepwise()
    with client({"slow": slow.model()}) as http:
        headers = {"accept": "application/x-ndjson"}
        order = {"text": "one two three four five six seven eight", "budget": 1500}
        with http.stream("POST", "/api/explain", json=order, headers=headers) as response:
            assert response.headers["content-type"].startswith("application/x-ndjson")
            events = []
            for line in response.iter_lines():
                events.append(json.loads(line))
                slow.steps.release(2)  # the first question is about the labels, and none that is counted
    *steps, last = events
    assert {step["event"] for step in steps} == {"progress"}
    counts = [step["queries"] for step in steps]
    assert counts == sorted(counts)
    assert len(set(counts)) >= 3
    assert last["event"] == "result"
    assert Explanation.from_dict(last["explanation"]).cost.queries >= counts[-1] > 1
    assert last["report"] == f"/reports/{last['id']}"


def test_an_error_after_the_stream_began_is_its_last_line(http: httpx.Client):
    headers = {"accept": "application/x-ndjson"}
    response = http.post("/api/explain", json={"text": TEXT, "target": "sideways"}, headers=headers)
    last = json.loads(response.text.splitlines()[-1])
    assert (last["event"], last["status"]) == ("error", 422)
    assert "no label 'sideways'; choose one of: negative, positive" in last["detail"]


def test_a_prediction_is_the_models_own(http: httpx.Client, models: dict[str, Any]):
    answer = http.post("/api/predict", json={"text": TEXT}).json()
    wanted: Any = Explainer(models["tiny"]).predict(TEXT)
    same_answers(answer["probabilities"], [wanted[label] for label in answer["labels"]])
    assert answer["prediction"] == max(wanted, key=wanted.get)
    assert answer["model"] == "tiny"


@pytest.mark.parametrize("words", [False, True])
def test_what_if_is_asked_by_tokens_not_by_text(http: httpx.Client, models: dict[str, Any], words: bool):
    model = models["tiny"]
    tokens = model.tokenize(TEXT).joined() if words else model.tokenize(TEXT)
    kept = [0, 1, 2, 2, 5, 7]
    counts = np.bincount(kept, minlength=len(tokens)).tolist()
    logits = model.logits(tokens, from_rows([kept], len(tokens)))
    order = {"text": TEXT, "granularity": "words" if words else "positions"}
    for what in ({"kept": kept}, {"counts": counts}):
        answer = http.post("/api/predict", json=order | what).json()
        assert answer["tokens"] == list(tokens.strings)
        same_answers(answer["probabilities"], probabilities(logits, "softmax")[0])
        same_answers(answer["scores"][1], logits[0, 1] - logits[0, 0])
        assert answer["scores"][0] == -answer["scores"][1]


def test_what_if_nothing_is_left(http: httpx.Client, models: dict[str, Any]):
    answer = http.post("/api/predict", json={"text": TEXT, "kept": []}).json()
    logits = models["tiny"].logits(models["tiny"].tokenize(TEXT), from_rows([[]], len(answer["tokens"])))
    same_answers(answer["probabilities"], probabilities(logits, "softmax")[0])


@pytest.mark.parametrize(
    ("path", "order", "said"),
    [
        ("explain", {}, "text: Field required"),
        ("explain", {"text": " \n"}, "empty or blank"),
        ("explain", {"text": 5}, "text: Input should be a valid string"),
        ("explain", {"text": TEXT, "budget": "many"}, "budget: "),
        ("explain", {"text": TEXT, "budget": 0}, "greater than or equal to 1"),
        ("explain", {"text": TEXT, "budget": 10**9}, "this server asks at most 20,000"),
        ("explain", {"text": TEXT, "efort": "fast"}, "efort: Extra inputs are not permitted"),
        ("explain", {"text": TEXT, "effort": "great"}, "effort: Input should be 'fast', 'balanced' or"),
        ("explain", {"text": TEXT, "seed": -1}, "seed: "),
        ("explain", {"text": TEXT, "method": "magic"}, "no method 'magic'; choose one of: attention, "),
        ("explain", {"text": TEXT, "method": "occlusion", "effort": "fast"}, "has no option 'effort'"),
        ("explain", {"text": TEXT, "options": {"gamma": 1, "depth": 2}}, "has no option 'depth'"),
        ("explain", {"text": TEXT, "options": {"granularity": "types"}}, "fields of their own"),
        (
            "explain",
            {"text": TEXT, "method": "slalom_sgd", "options": {"epochs": 201}},
            "epochs must be 'auto' or a whole number from 1 to 200; got 201",
        ),
        ("explain", {"text": TEXT, "model": "/etc"}, "no model '/etc'; choose one of: tiny, slow"),
        ("explain", {"text": TEXT, "target": "sideways"}, "no label 'sideways'"),
        ("explain", {"text": TEXT, "side": "first"}, "needs a pair of texts"),
        ("explain", {"text": TEXT, "model": "slow", "method": "gradient"}, "needs the gradients of a torch"),
        ("predict", {"text": TEXT, "kept": [0], "counts": [1]}, "give one of them"),
        ("predict", {"text": TEXT, "kept": [99]}, "kept names the position 99, but the text has"),
        ("predict", {"text": TEXT, "counts": [1, 1]}, "counts has 2 entries, but the text has"),
        ("predict", {"text": TEXT, "kept": [0] * 70}, "the model takes 64"),
        ("predict", {"text": TEXT, "counts": [10**7]}, "counts: "),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(http: httpx.Client, path: str, order: dict[str, Any], said: str):
    assert said in refused(http, f"/api/{path}", **order)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the request is not JSON"),
        (b"[]", "the request: "),
        (b"\xff", ""),
        (b'{"text": "\\ud800"}', "not valid Unicode"),
        (b'{"text": "x", "\\ud800": 1}', "unicode string"),
        (b'{"text": "x", "options": {"gamma": NaN}}', "gamma must be a number from -1e+06 to 1e+06"),
        (b'{"text": "x", "seed": ' + b"9" * 5000 + b"}", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_what_is_not_proper_json_is_refused(http: httpx.Client, body: bytes, said: str):
    response = http.post("/api/explain", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert said in response.json()["detail"]


def test_methods_that_would_read_files_of_the_server_are_not_there(http: httpx.Client, tmp_path: Any):
    (tmp_path / "data.csv").write_text("text,label\nfine,1\nawful,0\n")
    listed = http.get("/api/methods").json()
    assert {"slalom", "lime", "gradient"} <= {method["name"] for method in listed}
    assert "labelled data" not in {method["needs"] for method in listed}
    assert "effort" in next(method for method in listed if method["name"] == "slalom")["options"]
    data = {"data": str(tmp_path / "data.csv")}
    assert "no method" in refused(http, "/api/explain", text=TEXT, method="naive_bayes", options=data)


def test_every_option_goes_as_far_as_it_is_said(http: httpx.Client):
    """All options are described, their defaults are taken, and what lies beyond their ranges is refused."""
    document = http.get("/openapi.json").json()
    described = document["components"]["schemas"]["ExplainRequest"]["properties"]["options"]["properties"]
    listed = http.get("/api/methods").json()
    assert {name for method in listed for name in method["options"]} == {*described, "granularity", "effort"}
    for method in listed:
        assert set(method["ranges"]) == set(method["options"])
        for name in set(method["options"]) & set(described):
            default = {"text": TEXT, "method": method["name"], "options": {name: method["options"][name]}}
            ask = ExplainRequest.model_validate(default)
            tasks.check(ask, 20_000)
            for beyond in (10**12, -(10**12), 2**70, 1e300, "x" * 300, math.nan):
                wrong = ask.model_copy(update={"options": {name: beyond}})
                with pytest.raises(InputError, match=f"^{name} must be "):
                    tasks.check(wrong, 20_000)


def test_models_are_opened_at_the_start(tmp_path: Any):
    """So that no request waits for one, and a wrong path is seen by whoever gave it."""
    module, tokenizer = tiny("distilbert", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    module.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with client({"mine": str(tmp_path)}) as http:
        listed = http.get("/api/models").json()
        assert listed["default"] == "mine"
        assert listed["models"] == [{"name": "mine", "labels": ["no", "yes"]}]
        assert http.get("/api/models/mine").json() == listed["models"][0]
        assert http.get("/api/models/other").status_code == 422
    with pytest.raises(ModelError, match="the model 'gone' cannot be opened: there is no directory"):
        create_app({"mine": str(tmp_path), "gone": str(tmp_path / "nowhere")})


def test_an_unexpected_error_tells_nothing_of_the_server(caplog: pytest.LogCaptureFixture):
    def fails(texts: list[str]) -> Any:
        if len(texts) > 3:
            raise KeyError("/home/secret/model.bin")
        return [[0.0, 1.0]] * len(texts)

    class Broken(type(Slow().model())):
        def logits(self, tokens: Any, perturbations: Any) -> Any:
            raise ZeroDivisionError("/home/secret")

    broken = Broken(fails, output="logits", labels=("a", "b"))
    with client({"function": fails, "broken": broken}) as http:
        for model, kind in (("function", "KeyError"), ("broken", "ZeroDivisionError")):
            caplog.clear()
            detail = refused(http, "/api/explain", 500, text=TEXT, model=model)
            assert "secret" not in detail
            assert "Error" not in detail
            assert kind in caplog.text
            assert detail.rsplit(" ", 1)[1] in caplog.text


def test_the_description_is_valid_and_complete(http: httpx.Client):
    from fastapi.openapi.models import OpenAPI

    document = http.get("/openapi.json").json()
    OpenAPI.model_validate(document)
    asked = {"/api/explain", "/api/predict", "/api/models", "/api/methods", "/healthz", "/reports/{name}"}
    assert asked <= set(document["paths"])
    answers = document["paths"]["/api/explain"]["post"]["responses"]
    assert {"200", "401", "413", "422", "503", "504"} <= set(answers)
    assert set(answers["200"]["content"]) == {"application/json", "application/x-ndjson"}
    properties = document["components"]["schemas"]["ExplainRequest"]["properties"]
    assert all("description" in field for field in properties.values())
    assert properties["text"]["maxLength"] == 20_000
    assert {"type": "integer", "minimum": 1, "maximum": 20_000} in properties["budget"]["anyOf"]
    steps = properties["options"]["properties"]["steps"]
    assert steps["anyOf"] == [{"type": "integer", "minimum": 1, "maximum": 500}]
    assert steps["description"] == "Of integrated_gradients."
    assert properties["options"]["additionalProperties"] is False
    assert http.get("/redoc").status_code == 404


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_comes_back_as_it_was_and_does_nothing(http: httpx.Client, text: str):
    answer = explained(http, text=text, model="slow", method="occlusion")
    assert answer["explanation"]["tokens"]["text"] == text
    for path in (answer["report"], f"{answer['report']}/fragment"):
        page = http.get(path)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "<script>alert" not in page.text
        assert "</style><style>*" not in page.text
        assert 'x" onmouseover' not in page.text


def test_methods_that_look_inside_do_not_disturb_each_other(models: dict[str, Any]):
    """A gradient method hooks into the embedding layer, which the other requests of the text use too."""
    model = models["tiny"]
    wanted = {name: Explainer(model)(TEXT, method=name) for name in ("integrated_gradients", "occlusion")}
    hooks = sum(len(part._forward_hooks) for part in model.module.modules())
    found: list[tuple[str, Any]] = []
    with client({"tiny": model}) as http:

        def ask(name: str) -> None:
            answer = http.post("/api/explain", json={"text": TEXT, "method": name}).json()
            found.append((name, Explanation.from_dict(answer["explanation"]).score()))

        threads = [threading.Thread(target=ask, args=(name,)) for name in [*wanted, *wanted, *wanted]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6
    for name, scores in found:
        same_scores(scores, wanted[name].score())
    assert sum(len(part._forward_hooks) for part in model.module.modules()) == hooks


def test_answers_do_not_depend_on_the_chunks(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    model = ModuleModel(models["tiny"].module, models["tiny"].tokenizer, batch_tokens=45)
    tokens = model.tokenize(TEXT)
    rng = np.random.default_rng(0)
    rows = [rng.choice(len(tokens), size=rng.integers(0, 12)).tolist() for _ in range(300)]
    queries = from_rows(rows, len(tokens))
    whole = model.logits(tokens, queries)
    watcher = Cancellation(60)
    chunked = CancellableModel(model, watcher, threading.Lock())
    monkeypatch.setattr(executor, "CHUNK", 90)
    asked: list[int] = []
    monkeypatch.setattr(watcher, "report", asked.append)
    same_answers(chunked.logits(tokens, queries), whole)
    assert asked == sorted(asked)
    assert asked[-1] == 300
    assert len(asked) > 8
    weights, before = np.array([-1.0, 1.0]), len(asked)
    for ours, theirs in zip(
        chunked.gradients(tokens, queries, weights), model.gradients(tokens, queries, weights), strict=True
    ):
        same_answers(ours, theirs)
    assert chunked.differentiable is None
    assert len(asked) > before + 8
    assert chunked.logits(tokens, from_rows([], len(tokens))).shape == (0, 2)


def test_an_example_is_made_once_and_kept(models: dict[str, Any]):
    with client({"tiny": models["tiny"]}, token="open-sesame") as http:
        assert http.get("/api/example").status_code == 401
        http.headers["authorization"] = "Bearer open-sesame"
        first = http.get("/api/example").json()
        assert first["request"] == {"text": tasks.EXAMPLE, "model": "tiny", "units": "words"}
        assert first == http.get("/api/example").json()
        page = http.get(first["report"], headers={"authorization": ""})
        assert page.status_code == 200
        assert "awful" in page.text
        assert http.get("/reports/example/fragment").text.startswith('<div class="slalom-explanation">')


def test_methods_are_compared(http: httpx.Client, models: dict[str, Any]):
    answer = http.post(
        "/api/compare",
        json={"text": TEXT, "model": "tiny", "methods": ["slalom", "occlusion", "attention"], "budget": 80},
    )
    assert answer.status_code == 200, answer.text
    document = answer.json()["comparison"]
    assert list(document["methods"]) == ["slalom", "occlusion", "attention"]
    alone = Explainer(models["tiny"])(TEXT, method="occlusion", budget=80)
    same_scores(Explanation.from_dict(document["methods"]["occlusion"]).score(), alone.score())
    assert set(document["predicted"]["r2"]) == set(document["methods"])
    page = http.get(answer.json()["report"])
    assert "methods side by side" in page.text
    assert "'sha256-" in page.headers["content-security-policy"]
    assert '<table class="heat">' in http.get(f"/reports/{answer.json()['id']}/fragment").text


def test_comparisons_that_are_refused(http: httpx.Client):
    assert "has no method 'nope'" in refused(http, "/api/compare", text=TEXT, methods=["nope"])
    assert "each method once" in refused(http, "/api/compare", text=TEXT, methods=["lime", "lime"])
    assert "this server asks at most" in refused(http, "/api/compare", text=TEXT, budget=10**6)
    assert "gradients" in refused(http, "/api/compare", text=TEXT, model="slow", methods=["gradient"])
