"""What made the rows of a cell: commands and commits are kept by run, and told on the page."""

from __future__ import annotations

import pytest

from slalom_lab.bench import league_origin

VERSIONS = {"slalom-xai": "0.2.0", "torch": "2.9", "transformers": "5.0", "numpy": "2.4"}


def test_the_page_says_what_is_known():
    cell = {"name": "gpt2-imdb", "versions": VERSIONS, "rows": []}
    old, command = league_origin.lines(cell)
    assert old == (
        "Made with slalom-xai 0.2.0, torch 2.9, transformers 5.0 (its commit was not kept). "
        "Its command was not kept; this one makes it anew:"
    )
    assert command == "```sh\nslalom league --out league --cells gpt2-imdb -m gpt2=DIR\n```"
    made = [{"command": "slalom a", "commit": "abc"}, {"command": "slalom a", "commit": None}]
    assert league_origin.lines(cell | {"made": made}) == [
        "Made with slalom-xai 0.2.0, torch 2.9, transformers 5.0 "
        "(commit abc, and others that were not kept) by",
        "```sh\nslalom a\n```",
    ]
    (elsewhere,) = league_origin.lines(cell | {"name": "elsewhere"})
    assert elsewhere.endswith("(its commit was not kept).")


def test_a_cell_is_made_anew_with_what_it_needs():
    theirs = [
        {"method": "slalom"},
        {"method": "theirs:f", "outside": True},
        {"method": "a.jsonl", "outside": True},
    ]
    command = "slalom league --out league --cells "
    assert league_origin.recipe({"name": "bundled-sst2", "rows": [{"method": "slalom"}, *theirs]}) == (
        f"{command}bundled-sst2 --methods theirs:f,a.jsonl"
    )
    assert league_origin.recipe({"name": "smollm2-sst2"}) == f"{command}smollm2-sst2"
    assert league_origin.recipe({"name": "agnews"}) == f"{command}agnews"
    assert league_origin.recipe({"name": "encoder-yelp"}) == f"{command}encoder-yelp -m encoder=DIR"


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("encoder=/data/models/yelp", "encoder=yelp"),
        ("/runs/league", "league"),
        ("~/league", "league"),
        ("C:\\runs\\league", "league"),
        ("/a/scores.jsonl,module:function,b/c.jsonl", "scores.jsonl,module:function,b/c.jsonl"),
        ("docs/league.md", "docs/league.md"),
        ("lime:budget=300", "lime:budget=300"),
        ("-m", "-m"),
    ],
)
def test_commands_name_no_folder_of_a_machine(argument: str, told: str):
    assert league_origin.named_here(argument) == told
