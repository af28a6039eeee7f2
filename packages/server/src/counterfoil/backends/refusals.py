"""Why a backup, a restore, a copy or a distribution is refused. Only terminals show these texts, in English."""

from pathlib import Path

from msgspec import json

REFUSALS = json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, str])


def refusal(name: str, /, **values: object) -> str:
    return REFUSALS[name].format_map(values)
