"""Why a backup, a restore, a copy or a distribution is refused. Only terminals show these texts, in English."""

from pathlib import Path

from counterfoil.text import TextTable

refusal = TextTable(Path(__file__).with_suffix(".json"))
