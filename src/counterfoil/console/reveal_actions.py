"""Shows the text of one rejected line. The text may contain personal data, so every display is audited."""

import base64
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import DecodeError, Struct, field, json

from counterfoil import bootstrap
from counterfoil.console.exchange import ConsoleResponse
from counterfoil.console.layout import notice, page
from counterfoil.console.pages import loads
from counterfoil.console.visit import Visit
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.web.html import Html, element

MAX_SHOWN = 20_000


class RejectText(Struct, frozen=True):
    """The fields of a line in a rejects file that are needed to find a rejected line and show its text."""

    source: str = ""
    line: int = 0
    record: str | None = None
    record_base64: str | None = field(default=None, name="recordBase64")

    @property
    def text(self) -> str:
        if self.record is not None:
            return self.record
        return base64.b64decode(self.record_base64 or "").decode("utf-8", "backslashreplace")


def reveal_line(visit: Visit) -> ConsoleResponse:
    t, form = visit.t, visit.request.form
    view = loads.read_one(visit)
    line, source = form.get("line", ""), form.get("source", "")
    listed = any(str(one.line) == line and one.source == source for one in view.rejects)
    found = _find(visit.settings.store, view.load.rejects_file, source, line) if listed else None
    if found is None:
        content = loads.draw_load(visit, view, notice(t("load.not_found"), "warn"))
        return ConsoleResponse(status=404, body=page(visit, "loads", content, None))
    # The audit entry is written before the text is shown. If it cannot be written, the text is not shown.
    detail = f"load {view.load.number}, line {line}"
    entry = AuditEntry(at=visit.now, act=Act.REJECT_REVEALED, actor=visit.session.actor, detail=detail)
    with closing(bootstrap.audit(visit.settings)) as audit:
        audit.record(entry)
    content = loads.draw_load(visit, view, _revealed(visit, line, found.text))
    return ConsoleResponse(body=page(visit, "loads", content, None))


def _revealed(visit: Visit, line: str, text: str) -> Html:
    t = visit.t
    return element(
        "section",
        element("h2", t("load.revealed", line=line)),
        element("p", t("load.revealed_note"), class_="muted"),
        element("pre", text[:MAX_SHOWN], class_="code"),
    )


def _find(folder: Path, rejects_file: str | None, source: str, line: str) -> RejectText | None:
    """Return the rejected line, or None if its file does not contain it or is not in the store's folder `rejects`."""
    if not rejects_file or Path(rejects_file).name != rejects_file:
        return None
    path = folder / "rejects" / rejects_file
    if not path.is_file():
        return None
    return next((one for one in _lines(path) if one.source == source and str(one.line) == line), None)


def _lines(path: Path) -> Iterator[RejectText]:
    with path.open("rb") as file:
        for text in file:
            try:
                yield json.decode(text, type=RejectText)
            except DecodeError:
                continue
