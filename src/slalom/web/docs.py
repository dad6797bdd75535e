"""The page /docs: the API as /openapi.json describes it, in words and tables, with nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

Schema = Mapping[str, Any]


def render(document: Schema, example: str) -> str:
    """The whole page. `example` is a text for the commands that it shows."""
    sections = "".join(
        _operation(document, path, method, operation, example)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    about = escape(document["info"]["description"].partition("\n\n")[0])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>slalom · API</title>\n'
        '<link rel="icon" href="static/icon.svg" type="image/svg+xml">\n'
        '<link rel="stylesheet" href="static/app.css">\n</head>\n<body class="docs">\n<header>'
        '<h1><img src="static/icon.svg" alt="" width="26" height="26"> slalom '
        "<span>the API of this server</span>"
        f'</h1></header>\n<main>\n<p>{about} The page is <a href="./">here</a>; a machine reads '
        '<a href="openapi.json">openapi.json</a>. Errors are <code>{"detail": "a sentence"}</code>.</p>\n'
        f"{sections}</main>\n</body>\n</html>\n"
    )


def _operation(document: Schema, path: str, method: str, operation: Schema, example: str) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    request = "" if body is None else f"<h3>Request</h3>{_fields(document, body)}{_curl(path, example)}"
    answers = operation.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
    answer = answers.get("schema")
    response = "" if answer is None else f"<h3>Answer</h3>{_fields(document, answer)}"
    return (
        f'<section class="card ui"><h2><code>{method.upper()} {escape(path)}</code></h2>'
        f"<p>{escape(operation.get('description', ''))}</p>{request}{response}</section>\n"
    )


def _curl(path: str, example: str) -> str:
    order = json.dumps({"text": example})
    command = f"curl -s http://127.0.0.1:8000{path} -H 'Content-Type: application/json' -d '{order}'"
    return f'<pre tabindex="0"><code>{escape(command)}</code></pre>'


def _fields(document: Schema, schema: Schema) -> str:
    found = _resolved(document, schema)
    many = found.get("type") == "array"
    inner = _resolved(document, found["items"]) if many else found
    required = set(inner.get("required", ()))
    rows = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(_type(document, field))}'
        f"{_default(field, name in required)}</td><td>{escape(field.get('description', ''))}</td></tr>"
        for name, field in inner.get("properties", {}).items()
    )
    if not rows:
        return ""
    head = '<tr><th scope="col">field</th><th scope="col">type</th><th scope="col">meaning</th></tr>'
    return (
        f"{'<p>A list; each entry has:</p>' if many else ''}<div class=scroll tabindex=0 role=region "
        f'aria-label="fields"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
    )


def _default(field: Schema, required: bool) -> str:
    if required or "default" not in field:
        return " <small>required</small>" if required else ""
    return f" <small>default {escape(json.dumps(field['default']))}</small>"


def _type(document: Schema, schema: Schema) -> str:
    """A type in a few words."""
    found = _resolved(document, schema)
    if "anyOf" in found:
        return " or ".join(dict.fromkeys(_type(document, one) for one in found["anyOf"]))
    if "enum" in found:
        return " or ".join(json.dumps(one) for one in found["enum"])
    if "const" in found:
        return json.dumps(found["const"])
    if found.get("type") == "array":
        return f"list of {_type(document, found.get('items', {}))}"
    return str(found.get("type", "anything"))


def _resolved(document: Schema, schema: Schema) -> Schema:
    reference = schema.get("$ref")
    return document["components"]["schemas"][reference.rpartition("/")[2]] if reference else schema
