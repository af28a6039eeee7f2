"""Tests for the Content-Security-Policy and the style sheet that all pages share."""

import base64
import hashlib
import re

import pytest

from counterfoil.web.assets import content_security_policy, style_sheet

# Pairs of a text colour and a background that it is used on.
PAIRS = [
    *((text, surface) for text in ("text", "muted", "accent") for surface in ("page", "surface", "mark")),
    *((name, f"{name}-surface") for name in ("accent", "warn", "bad")),
    *((f"code-{name}", "code-page") for name in ("text", "name", "string", "muted")),
]


def test_a_policy_allows_one_style_sheet_and_in_a_header_no_frames() -> None:
    digest = base64.b64encode(hashlib.sha256(b"p{color:red}").digest()).decode()
    rules = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    assert content_security_policy("p{color:red}", in_header=False) == rules
    assert content_security_policy("p{color:red}") == f"{rules}; frame-ancestors 'none'"


def test_only_a_page_with_scripts_may_run_them_and_only_from_its_own_origin() -> None:
    assert "script-src" not in content_security_policy("")
    rules = content_security_policy("", runs_scripts=True).split("; ")
    assert [rule for rule in rules if rule.startswith(("script-src", "connect-src"))] == ["script-src 'self'"]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(letter * 2 for letter in colour[1:])
    channels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_a_contrast_of_at_least_4_5_to_1(scheme: str) -> None:
    css = style_sheet("counterfoil.http.reference", "reference.css")
    blocks = re.findall(r":root \{([^}]*)\}", css)[: 2 if scheme == "dark" else 1]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", "".join(blocks)))
    for text, surface in PAIRS:
        darker, lighter = sorted((luminance(colours[text]), luminance(colours[surface])))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, surface)
