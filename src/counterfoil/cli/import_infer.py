"""`counterfoil import --infer`: propose a mapping, and show a few bills as the API would serve them."""

import os
import shutil
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
from msgspec import json, to_builtins

from counterfoil.cli.import_report import MAX_SHOWN, today
from counterfoil.cli.terminal import echo, message, print_document, style
from counterfoil.domain.bills import bill_from
from counterfoil.domain.shops import ShopFacts, shop_from
from counterfoil.importing.formats import is_json, open_export, recognised
from counterfoil.importing.infer import propose
from counterfoil.importing.mapping import ImportMapping, has_entry, merged, parse_mapping
from counterfoil.importing.proposals import Proposal, wrapped
from counterfoil.importing.results import Imported, ImportedRecord, ImportFailed, RejectedRow
from counterfoil.importing.sorted_rows import BILL, LINE, PAYMENT
from counterfoil.importing.tables import ImportOptions, TableImport, TableInput
from counterfoil.machine.files import STANDARD_OUTPUT_NAME, draft_of, names_file, open_output
from counterfoil.text import counted

STANDARD_OUTPUT = "-"
BILLS_SHOWN = 5
_say = partial(echo, err=True)


def propose_mapping(
    files: tuple[Sequence[Path], Sequence[Path], Sequence[Path]],
    shop: str | None,
    output: str,
    timezone: str | None,
    answers: Mapping[str, str],
) -> None:
    """Write the mapping for files of bills, lines and payments to `output`, and the questions to standard error."""
    proposal = propose(*files, shop, today=today(), timezone=timezone, answers=answers)
    text = proposal.text()
    _write(output, text)
    content = tomllib.loads(text)
    unset = [entry for entry in content.get("undecided", {}) if not has_entry(content, entry)]
    try:
        _show_bills(proposal, content, unset)
    except ImportFailed:
        # The same command, with an answer, writes the file.
        if output != STANDARD_OUTPUT:
            Path(output).unlink()
        raise
    _show_remarks(proposal)
    if output != STANDARD_OUTPUT:
        question = counted(len(unset), "question")
        then = f"Answer the {question} in the same command, then run:" if unset else "Check it, then run:"
        _say(f"The mapping is in {output}. {then}")
        options = zip(("", "--lines ", "--payments "), files, strict=True)
        names = " ".join(f"{option}{path}" for option, paths in options for path in paths)
        _say(f"  counterfoil import --mapping {output} {names} --load")


def write_known_mapping(files: Sequence[Path], own_mappings: Path | None, output: str, *, is_asked: bool) -> bool:
    """Write the mapping of files whose format is known, and return True; return False if they need another mapping.

    With options that only a proposal has, as `is_asked` says, another mapping is proposed.
    """
    try:
        found = [recognised(path, None, own_mappings) for path in files]
    except ImportFailed:
        if any(is_json(path) for path in files):
            raise
        return False
    titles, names = list(dict.fromkeys(file.title for file in found)), " ".join(map(str, files))
    table = found[0].table
    if is_asked and table:
        _say(f"Recognised: {' and '.join(titles)}. {message('other_ids', names=names)}")
        return False
    try:
        export = open_export(None, files, (), (), {}, None, ImportOptions(today=today()), own_mappings)
        deque(export.records(), maxlen=0)
    except ImportFailed as error:
        if len(titles) > 1 or table is None:
            raise
        _say(f"Recognised: {titles[0]}. An import with its mapping fails: {error} Another mapping is proposed.")
        return False
    if len(titles) > 1 or table is None:
        raise ImportFailed(f"no mapping is needed for {' and '.join(titles)}. Run: counterfoil import {names} --check")
    _say(f"Recognised: {titles[0]}. No mapping is needed: counterfoil import {names} --check")
    encoding = f'\n[file]\nencoding = "{found[0].encoding}"\n' if found[0].encoding else ""
    _write(output, table.text + encoding)
    if output != STANDARD_OUTPUT:
        _say(f"The built-in mapping is in {output}, for changes of your own.")
    return True


def answers_of(texts: Sequence[str]) -> dict[str, str]:
    answers = {}
    for text in texts:
        entry, mark, value = text.rpartition("=") if text.startswith("status.") else text.partition("=")
        if not mark or not entry:
            raise click.UsageError(f"--set {text}: write an entry and its value, as in --set 'bill.id=Receipt No'.")
        answers[entry.strip()] = value.strip()
    return answers


def _write(output: str, text: str) -> None:
    """Write the text to standard output, or to a file that is new or nobody has changed."""
    if output == STANDARD_OUTPUT:
        with names_file(STANDARD_OUTPUT_NAME):
            print_document(text)
        return
    path, text = Path(output), text + _mark(text)
    if os.path.lexists(path) and not _is_own(path):
        raise ImportFailed(message("not_own_proposal", path=str(path)))
    with draft_of(path) as draft, open_output(draft, name=path) as file:
        file.write(text.encode())


def _mark(text: str) -> str:
    """Return the last line of a file. It shows that nobody has changed the file, so that it may be overwritten."""
    return f"# sha256 of the lines above: {sha256(text.encode()).hexdigest()}\n"


def _is_own(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    *lines, last = path.read_bytes().decode(errors="replace").splitlines(keepends=True) or [""]
    return last == _mark("".join(lines))


def _show_bills(proposal: Proposal, content: dict[str, Any], unset: Sequence[str]) -> None:
    if "id" not in content.get("bill", {}):
        _say("No bills can be shown, because no bill ID column was found.")
        return
    # If the day/month order of dates is unknown, the preview assumes that the day comes first.
    is_order_missing = "dates.order" in unset
    shown = merged(content, {"dates": {"order": "dmy"}}) if is_order_missing else dict(content)
    shown.pop("undecided", None)
    # The row of totals is not in the sample.
    shown["checks"] = {name: check for name, check in content.get("checks", {}).items() if name != "totals"}
    found = list(_sample_records(parse_mapping(shown, "proposal"), proposal))
    records = [one for one in found if isinstance(one, ImportedRecord)]
    facts = {one.record["id"]: shop_from(one.record)[1] for one in records if one.record["kind"] == "shop"}
    bills = [one for one in records if one.record["kind"] == "bill"]
    chosen = _chosen(bills)
    first = f"The first {len(chosen)}" if chosen == bills[: len(chosen)] else f"{len(chosen)}"
    _say("")
    if bills:
        of_all = f"{first} of {counted(len(bills), 'bill')} in the sample"
        _say(f"{of_all}, as the API would serve them:")
    else:
        _say("With this mapping, no bill of the sample can be converted. Correct the mapping first:")
    for one in chosen:
        for line in _served(one, facts):
            _say(line)
    if is_order_missing:
        _say("The preview assumes that the day comes before the month.")
    rejected: dict[str, list[RejectedRow]] = {}
    for result in found:
        if isinstance(result, RejectedRow):
            rejected.setdefault(result.detail, []).append(result)
    for detail, rows in list(rejected.items())[:MAX_SHOWN]:
        others = f" and {counted(len(rows) - 1, 'other row')}" if len(rows) > 1 else ""
        _say(f"rejected: {rows[0].file} line {rows[0].line}{others}: {detail}")
    if more := sum(map(len, list(rejected.values())[MAX_SHOWN:])):
        _say(f"rejected: {counted(more, 'more row')} in the sample")


def _sample_records(mapping: ImportMapping, proposal: Proposal) -> Iterator[Imported]:
    sheets = zip((BILL, LINE, PAYMENT), (proposal.bills, proposal.lines, proposal.payments), strict=True)
    # How the rows of another file belong to bills may still be a question.
    keys = {LINE: mapping.line and mapping.line.key, PAYMENT: any(table.key for table in mapping.payments)}
    inputs = [
        TableInput(kind, sheet.file.sheet, sheet.rows) for kind, sheet in sheets if sheet and keys.get(kind, True)
    ]
    # The sample may contain lines whose bill is not in it, so a line without a bill is not an error here. Nor is an
    # order of day and month that is only assumed.
    yield from TableImport(mapping, inputs, ImportOptions(is_order_sure=True), has_all_bills=False).records()


def _chosen(bills: Sequence[ImportedRecord]) -> list[ImportedRecord]:
    """Return the first bills, up to BILLS_SHOWN in total, but always a voided bill and a refund if there are any."""
    voids = [place for place, one in enumerate(bills) if one.record.get("void")]
    nets = [str(one.record.get("amounts", {}).get("net", "")) for one in bills]
    refunds = [place for place, net in enumerate(nets) if net.startswith("-")]
    special = {*voids[:1], *refunds[:1]}
    others = [place for place in range(len(bills)) if place not in special]
    return [bills[place] for place in sorted([*special, *others[: BILLS_SHOWN - len(special)]])]


def _served(one: ImportedRecord, facts: dict[str, ShopFacts]) -> list[str]:
    """Return the lines that show a bill as the API would serve it, one field per line."""
    shop = one.record["shopId"]
    known = facts.get(shop) or shop_from({"id": shop})[1]
    fields = to_builtins(bill_from(one.record, known, lambda _: "m1_…").bill)
    lines = [f"  {name}: {json.encode(value).decode()}" for name, value in _without_empty(fields).items()]
    return [style(f"{one.file} line {one.line}", bold=True), *lines]


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        inner = {name: _without_empty(one) for name, one in value.items()}
        return {name: one for name, one in inner.items() if one not in (None, [], {})}
    return [_without_empty(one) for one in value] if isinstance(value, list) else value


def _show_remarks(proposal: Proposal) -> None:
    width = shutil.get_terminal_size().columns
    for title, text, answers in proposal.remarks():
        first, *rest = wrapped(f"{title}: {text}", width)
        _say(style(f"{title}:", bold=True) + first.removeprefix(f"{title}:"))
        for line in (*rest, *(f"  {answer}" for answer in answers)):
            _say(line)
