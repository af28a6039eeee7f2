"""`python -m bench.publish`: render the plots of the last full run; write the targets to its page in docs/evidence."""

import re
from pathlib import Path

from bench import report
from bench.report import RESULTS, draw, read

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "performance.md"
PLACE = re.compile(r"(?<=<!-- targets: begin -->\n).*?(?=<!-- targets: end -->)", re.DOTALL)


def targets(results: Path = RESULTS) -> str:
    """Return one table with the targets from the last full run and the last growth run. Missing runs are left out."""
    written = [profile for profile in ("full", "growth") if (results / f"{profile}.json").exists()]
    verdicts = [verdict for profile in written for verdict in read(profile, results).verdicts]
    return "\n".join(report.targets(verdicts)) + "\n"


def main() -> None:
    draw(read("full"))
    text = PAGE.read_text("utf-8")
    PAGE.write_text(PLACE.sub(lambda _: targets(), text), "utf-8")


if __name__ == "__main__":
    main()
