"""Generated pages are up to date, and links between pages lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import sources

PAGES = [
    *sorted(sources.ROOT.glob("*.md")),
    *sources.files("docs", suffixes=(".md",)),
]


def test_options_page_is_what_config_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tfring.config"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    page = (sources.ROOT / "docs" / "options.md").read_text()
    assert page == printed, "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=sources.name)
def test_links_lead_to_files(page) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{sources.name(page)} links to {target}"


def test_every_error_kind_is_explained() -> None:
    from tfring import errors

    page = (sources.ROOT / "docs" / "errors.md").read_text()
    kinds = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.TfringError)
    ]
    missing = [name for name in kinds if f"`{name}`" not in page]
    assert not missing, f"docs/errors.md does not explain {missing}"


def test_every_make_target_that_is_mentioned_exists() -> None:
    makefile = (sources.ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z0-9-]+)", page.read_text()):
            known = target in targets or re.fullmatch(r"test-\d+", target)
            assert known, f"{sources.name(page)} mentions `make {target}`"
