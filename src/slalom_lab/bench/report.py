"""The numbers of a benchmark as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slalom_lab.bench.figure import FILE as FIGURE

Part = Mapping[str, Any]


def markdown(document: Mapping[str, Any], figure: bool = False) -> str:
    """The report: what was measured on what, the ratios, then every part that is there."""
    parts = document["parts"]
    lines = ["# Speed", "", *_head(document), "", "## Ratios", "", *ratios_table(parts)]
    for name, part in parts.items():
        lines += ["", f"## {_TITLES[name]}", ""]
        if "failed" in part:
            lines.append(f"Not measured: {part['failed']}")
            continue
        lines += _BODIES[name](part)
        if name == "scaling" and figure:
            lines += ["", f"![Time against length, samples and layers]({FIGURE})"]
        lines += _profile(part)
    return "\n".join(lines)


def ratios_table(parts: Mapping[str, Part]) -> list[str]:
    """Every ratio with its spread, or why it was not measured. What it should be is in the JSON."""
    rows = [[found["claim"], measured(found)] for part in parts.values() for found in part.get("goals", ())]
    return _table(["ratio", "measured: median (least – most, n)"], rows)


def measured(found: Mapping[str, Any]) -> str:
    """A ratio in numbers, or "not measured" with the reason."""
    if found["reached"] is not None:
        return _ratio(found["ratio"])
    return f"not measured: {found['reason']}" if found.get("reason") else "not measured"


def _head(document: Mapping[str, Any]) -> list[str]:
    machine, settings, model = document["machine"], document["settings"], document.get("model", {})
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    size = f"{model.get('parameters', 0) / 1e6:.1f} million parameters, {model.get('layers')} layers"
    lines = [
        f"- Machine: {machine['processor']}, cores: {machine['cores']}, threads: {machine['threads']}, "
        f"{machine['system']}, Python {machine['python']}",
        f"- Model: {model.get('name')} ({model.get('kind')}, {size}, {model.get('width')} wide)",
        f"- Texts: {document['source'] or 'given'}; {settings['documents']} documents of about "
        f"{settings['tokens']} tokens, {settings['samples']:,} samples, rounds: {settings['repeats']}; "
        f"documents for slow peers, once each: {settings['slow_documents']}",
        f"- Versions: {versions}",
    ]
    if document.get("command"):
        lines += ["", "Produced by:", "", f"    {document['command']}"]
    return lines


def _overhead(part: Part) -> list[str]:
    rows = [
        [
            row["tokens"],
            row["batch_tokens"],
            *(_seconds(_middle(row["seconds"][k])) for k in ("explanation", "forward")),
        ]
        for row in part["documents"]
    ]
    told = "Method slalom, queries of three tokens. The forward passes are the module itself over "
    return [
        f"{told}the same id sequences, in inference mode, at the batch size that is fastest.",
        "",
        *_table(["tokens", "best batch, tokens", "explanation, s", "bare forward, s"], rows),
        "",
        f"All: explanation {_ratio(part['explanation'], ' s')}, forward {_ratio(part['forward'], ' s')}.",
    ]


def _equal_samples(part: Part) -> list[str]:
    rows = [
        [r["who"], r["missing"], ""]
        if "missing" in r
        else [r["who"], _ratio(r["seconds"], " s"), r["seconds"]["n"]]
        for r in part["seconds"]
    ]
    ratios = [[r["peer"], r["engine"], _ratio(r["ratio"])] for r in part["ratios"]]
    return [
        f"Documents of {_range(part['documents'])} tokens.",
        "",
        *_table(["", "seconds: median (least – most, n)", "runs"], rows),
        "",
        "How many times longer a peer takes, per document and round:",
        "",
        *_table(["peer", "engine", "ratio: median (least – most, n)"], ratios),
    ]


def _equal_quality(part: Part) -> list[str]:
    rows = [
        [r["who"], "", "", r["missing"]]
        if "missing" in r
        else [
            r["who"],
            f"{r['samples']:,.0f}" if "samples" in r else "",
            _plus(r["aopc"], r["aopc_error"]),
            _seconds(r["seconds"]),
        ]
        for r in part["rows"]
    ]
    lines = [
        f"{len(part['documents'])} documents of {_range(part['documents'])} tokens. Peers take their "
        "published or default number of samples. The budget that suffices is the smallest from which on the "
        "mean AOPC is not below.",
        "",
        *_table(["", "samples", "deletion AOPC ↑", "seconds, mean"], rows),
        "",
    ]
    for found in part["goals"]:
        if "aopc_gap" in found:
            gap = _plus(found["aopc_gap"], found["aopc_gap_error"])
            own = f"{found['budget']} queries" if "budget" in found else "its largest budget"
            lines.append(
                f"- {found['claim']}: AOPC of slalom with {own} less that of the peer, paired: {gap}"
            )
    return lines


def _limits(part: Part) -> list[str]:
    rows = [
        [
            r["who"],
            r["batch_tokens"],
            _ratio(r["seconds"], " s"),
            _ratio(r["ratio"]),
            "" if r["deviation"] is None else f"{r['deviation']:.1e}",
        ]
        for r in part["rows"]
    ]
    rows += [[name, "", reason, "", ""] for name, reason in part["refused"].items()]
    return [
        f"{part['sequences']:,} queries, {part['tokens']:,} tokens with special tokens: "
        f"{part['gigaflop']:.1f} GFLOP in linear layers. The limit is the time of these matrix products "
        "alone (torch.mm, float32, the shapes of the model's own layers, best batch size): "
        f"{part['rate']:.0f} GFLOP/s.",
        "",
        *_table(["", "best batch, tokens", "seconds", "over the limit", "deviation of logits"], rows),
    ]


def _memory(part: Part) -> list[str]:
    rows = [[f"{r['queries']:,}", f"{r['loaded']:.0f}", f"{r['peak']:.0f}"] for r in part["rows"]]
    return ["A fresh process each.", "", *_table(["queries", "MB after loading", "MB at the peak"], rows)]


def _together(part: Part) -> list[str]:
    rows = [[r["effort"], _ratio(r["one by one"], " s"), _ratio(r["together"], " s")] for r in part["rows"]]
    head = ["effort", "one by one", "together"]
    return [f"Documents of {_range(part['documents'])} tokens.", "", *_table(head, rows)]


def _scaling(part: Part) -> list[str]:
    lines: list[str] = []
    for table in part["tables"]:
        rows = [
            [
                f"{r['x']:,}",
                r["tokens"],
                f"{r['queries']:,}",
                _ratio(r["seconds"], " s"),
                f"{r['model_share']:.0%}",
            ]
            for r in table["rows"]
        ]
        lines += [*_table([table["of"], "tokens", "queries", "seconds", "in the model"], rows), ""]
    return lines[:-1]


_TITLES = {
    "overhead": "An explanation beside its forward passes",
    "equal_samples": "The same number of samples",
    "equal_quality": "The same quality",
    "limits": "The forward passes beside the arithmetic limit",
    "memory": "Peak memory",
    "together": "Several documents together",
    "scaling": "Scaling",
}
_BODIES: dict[str, Callable[[Part], list[str]]] = {
    "overhead": _overhead,
    "equal_samples": _equal_samples,
    "equal_quality": _equal_quality,
    "limits": _limits,
    "memory": _memory,
    "together": _together,
    "scaling": _scaling,
}


def _profile(part: Part) -> list[str]:
    if "profile" not in part:
        return []
    rows = [[f"`{e['what']}`", f"{e['share']:.0%}", e["calls"]] for e in part["profile"]["entries"]]
    told = f"Where the time goes ({part['profile']['of']}):"
    return ["", told, "", *_table(["", "share", "calls"], rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]


def _ratio(found: Mapping[str, Any], unit: str = "") -> str:
    if not found["n"]:
        return "–"
    return (
        f"{_number(found['median'])}{unit} ({_number(found['low'])} – {_number(found['high'])}, {found['n']})"
    )


def _number(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def _seconds(value: float) -> str:
    return _number(value)


def _plus(mean: float, error: float | None) -> str:
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
