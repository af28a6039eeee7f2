"""`counterfoil members`: forget a member who asks for it, and list the marks of those who were forgotten."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec import DecodeError, ValidationError, json
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.checks.forgetting import Erased, Forgetting, KnownMember, PartnerRead, acting_as_store_owner
from counterfoil.cli.options import existing_store, require_roles, store_options, utc_option
from counterfoil.domain.forgetting import ForgottenMember, Person, mark_of, same_tel
from counterfoil.domain.members import StoredMember
from counterfoil.ingest.erasing import FoundFile
from counterfoil.machine.files import read_regular
from counterfoil.machine.operator import operator
from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import counted, printable
from counterfoil.program import terminal
from counterfoil.program.clock import SystemClock
from counterfoil.program.columns import ListColumn
from counterfoil.program.main import FAILED, CommandGroup
from counterfoil.program.paths import UserPath
from counterfoil.program.terminal import echo, print_fields, print_json, print_list, print_note, print_rows
from counterfoil.program.times import second
from counterfoil.settings import Settings

MAX_NAMED = 10
_MARKS: Sequence[ListColumn[ForgottenMember]] = (
    ListColumn("mark", terminal="mark"),
    ListColumn("at", kind="time", terminal="forgotten"),
    ListColumn("finishedAt", kind="time", terminal="finished"),
)
_MATCHES: Sequence[ListColumn[StoredMember]] = (
    ListColumn("token", terminal="member"),
    ListColumn("provider_id", terminal="base"),
    ListColumn("created_date", terminal="signed up"),
    ListColumn("visit_count", kind="number", terminal="visits"),
)


@click.group(cls=CommandGroup)
def command() -> None:
    """Forget a member who asks for it, and list who was forgotten."""


@command.command(name="forgotten")
@utc_option
@store_options
def forgotten(as_json: bool) -> None:
    """List the marks of the members that were forgotten. Nobody can tell from a mark who it was.

    Keep the output of --json outside the store: with it, `members forget --marks FILE` forgets these members again
    in a store that was restored from an older backup.
    """
    settings = existing_store()
    found = bootstrap.store(settings).reads().forgotten_members()
    print_rows(_MARKS, found, as_json, nothing="no member was forgotten.")
    if any(member.finished_at is None for member in found) and not as_json:
        print_note(
            "something of a member may still be in the store. Forget him again, or run `counterfoil members forget"
            " --unfinished`."
        )


@command.command(name="forget")
@click.argument("who", required=False, metavar="[ID|TOKEN]")
@click.option(
    "--tel",
    metavar="NUMBER",
    help="Forget the member with this phone number, however it is written. With an ID, also look for it in kept files.",
)
@click.option(
    "--email",
    metavar="ADDRESS",
    help="Forget the member with this email address. With an ID, also look for it in kept files.",
)
@click.option(
    "--in",
    "folders",
    type=UserPath(path_type=Path, file_okay=False, exists=True),
    multiple=True,
    metavar="DIR",
    help="Also search the files in this folder, and erase him from them. Can be repeated.",
)
@click.option(
    "--unfinished", is_flag=True, help="Finish what was interrupted, if it is not known any more who was meant."
)
@click.option(
    "--marks",
    type=UserPath(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Forget the members with these marks, as `members forgotten --json` printed them.",
)
@click.option("--check", is_flag=True, help="Show what is known of the member, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@utc_option
@store_options
def forget(
    who: str | None,
    tel: str | None,
    email: str | None,
    folders: tuple[Path, ...],
    unfinished: bool,
    marks: Path | None,
    check: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Forget a member: by the ID that the POS gives him, his token, phone number or email address.

    \b
    counterfoil members forget 4711 --check
    counterfoil members forget --tel -        # asks for the number

    With - in place of the ID, number or address, the command asks for it, or reads it from standard input. So neither
    the shell's history nor the log of sudo has it.

    The command first shows what is known of him. Then it erases his record and his accounts, takes his token off
    his bills, and erases his lines from the rejects and from the files that `load --watch` keeps. It names files
    that it cannot change, backups that may have him, and the keys that have read him, with what to tell their
    owners. A mark stays, so that no later load brings him back. If it is interrupted, run it again.

    Exit status: 0 if the member was forgotten or only shown, 1 if something of him is left that the command cannot
    erase and has named, or the store cannot be read or written, or nobody is meant, 2 for wrong usage.
    """
    who, tel, email = _typed(who, "ID or token"), _typed(tel, "Phone number"), _typed(email, "Email address")
    if tel is not None and not same_tel(tel):
        raise click.BadParameter("a phone number has digits.", param_hint="'--tel'")
    is_named = who is not None or bool(tel or email)
    if [is_named, unfinished, marks is not None].count(True) != 1:
        raise click.UsageError("Name one member by ID, token, --tel or --email, or use --unfinished or --marks FILE.")
    settings, now = existing_store(), SystemClock().now_ms()
    require_roles(settings, writes=not check)
    listed = _marks_in(marks) if marks else None
    with acting_as_store_owner(settings):
        forgetting = Forgetting(settings, now, folders)
        if unfinished or listed is not None:
            chosen = forgetting.unfinished() if listed is None else listed
            return _forget_marked(forgetting, chosen, check=check, yes=yes, as_json=as_json)
        person = _person_named(forgetting, who, tel, email)
        return _forget_person(settings, forgetting, person, check=check, yes=yes, as_json=as_json)


def _typed(given: str | None, name: str) -> str | None:
    """Return what was given. If that is `-`, ask for it, because words of a command are in histories and logs."""
    if given != "-":
        return given
    if terminal.is_terminal(sys.stdin):
        return str(click.prompt(name, err=True))
    line = sys.stdin.readline().strip()
    if not line:
        raise click.UsageError(f"standard input has no line: {name} was to be read from it.")
    return line


def _forget_person(
    settings: Settings, forgetting: Forgetting, person: Person, *, check: bool, yes: bool, as_json: bool
) -> int:
    known = forgetting.known(person)
    if not as_json:
        _print_known(known)
    if check:
        if as_json:
            print_json({**_view(known), "done": None})
        else:
            print_note("nothing was changed.")
        return 0
    _confirm("Forget this member for good?", yes=yes, as_json=as_json)
    done = forgetting.forget(known, operator())
    if as_json:
        print_json({**_view(known), "done": _done_view(done)})
    else:
        _print_done(settings, known, done)
    return FAILED if done.remains or any(file.problem for file in done.files) or known.text_bills else 0


def _confirm(question: str, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if not terminal.is_terminal(sys.stdin) or as_json:
        raise click.UsageError("Forgetting a member needs --yes, because nobody can be asked. --check only shows him.")
    terminal.confirm(question)


# --- who is meant ------------------------------------------------------------------------


def _person_named(forgetting: Forgetting, who: str | None, tel: str | None, email: str | None) -> Person:
    if who is not None:
        # His record may be gone already, and with it how he is found in files.
        tels, emails = frozenset([tel] if tel else []), frozenset([email] if email else [])
        return replace(forgetting.person(who), tels=tels, emails=emails)
    found = forgetting.with_contact(tel, email)
    if len(found) == 1:
        return Person(token=found[0].token).known_as(found[0])
    if found:
        print_list(_MATCHES, found)
        raise click.ClickException(
            f"{counted(len(found), 'member')} have this phone number or email address. Name one of them by its token."
        )
    interrupted = " An interrupted one is finished with `counterfoil members forget --unfinished`."
    raise click.ClickException(
        "no member has this phone number or email address. Nothing was changed."
        + (interrupted if forgetting.unfinished() else "")
    )


def _marks_in(file: Path) -> list[ForgottenMember]:
    """Return the marks that `counterfoil members forgotten --json` has printed to a file."""
    try:
        listed = json.decode(read_regular(file), type=list[dict[str, str | None]])
        return [ForgottenMember(mark=str(row["mark"]), at=SystemClock().now_ms()) for row in listed]
    except (DecodeError, ValidationError, KeyError) as error:
        raise click.ClickException(
            f"{file} is not a list of marks, as `counterfoil members forgotten --json` prints it."
        ) from error


def _forget_marked(
    forgetting: Forgetting, marks: list[ForgottenMember], *, check: bool, yes: bool, as_json: bool
) -> int:
    if not as_json:
        echo(f"{counted(len(marks), 'member')} to forget by their marks.")
    done = None
    if marks and not check:
        _confirm("Forget these members for good?", yes=yes, as_json=as_json)
        done = forgetting.forget_marked(marks, operator())
    if as_json:
        print_json({"marks": [member.mark for member in marks], "done": done and _done_view(done)})
    elif done:
        echo(f"Took them off {counted(done.bills, 'bill')}, and erased their records.")
        print_note("kept files were not searched, because nobody knows who these members were.")
    return 0


# --- what is printed -----------------------------------------------------------------------


def _print_known(known: KnownMember) -> None:
    print_fields([*_known_fields(known)])
    for file in known.files[:MAX_NAMED]:
        echo(f"  {_file_text(file)}")
    if len(known.files) > MAX_NAMED:
        echo(f"  and {len(known.files) - MAX_NAMED:,} more; --json lists them")
    for reader in known.readers:
        echo(f"  read by {_reader_text(reader)}")
    if known.is_nothing and not known.mark:
        print_note("nothing of this member was found: check the ID. A mark would only keep later records with it out.")
    if known.is_loading:
        print_note("a load is running, which may write lines of him to files. Forget him again when it has ended.")
    for place in known.unsearched:
        print_note(f"not searched: {printable(place)}.")
    if known.person.member_id is None and not known.is_nothing:
        print_note(
            "his ID is not known, so files that are not source records are searched only for his phone number and"
            " email address. Use the ID, if you know it."
        )


def _known_fields(known: KnownMember) -> Iterator[tuple[str, str]]:
    yield "member", known.person.token
    if known.mark:
        yield "forgotten", second(known.mark.at) + ("" if known.mark.finished_at else ", not finished")
    record = known.record
    if record is None:
        yield "record", "none in the store"
    else:
        yield "base", record.provider_id
        yield "signed up", record.created_date or "not known"
        yield "tel", record.tel or "none"
        yield "email", record.email or "none"
        yield "visits", f"{record.visit_count:,}, last on {record.last_visit or 'no known day'}"
        yield "coupons", f"{len(record.coupons):,}"
        yield "accounts", f"{len(record.accounts):,}, as hashes"
    for shop in known.bills:
        days = f"{shop.first_day} to {shop.last_day}" if shop.first_day else "without a day"
        yield "bills", f"{shop.bills:,} of shop {shop.shop_id}, {days}"
    for shop_id, bill_id in known.text_bills[:MAX_NAMED]:
        yield "in a text", f"of bill {bill_id} of shop {shop_id}, which stays: correct it in the POS and load it again"
    if known.shared:
        yield "shared", f"{counted(len(known.shared), 'other member')} with the same phone number or email address stay"
    yield "kept files", f"{len(known.files):,} with something of him"


def _file_text(file: FoundFile) -> str:
    what = file.problem or f"{counted(file.found, 'line')} of him or naming him"
    return printable(f"{file.path}: {what}")


def _reader_text(reader: PartnerRead) -> str:
    name = f"key {reader.key_id}" + (f" ({reader.label})" if reader.label else "")
    revoked = ", revoked" if reader.is_revoked else ""
    if reader.disclosed_at is None:
        return printable(f"{name}{revoked}: without phone numbers, last {second(reader.read_at or 0)}")
    times = counted(reader.disclosures, "answer")
    return printable(f"{name}{revoked}: {times} with phone numbers of his base, last {second(reader.disclosed_at)}")


def _print_done(settings: Settings, known: KnownMember, done: Erased) -> None:
    echo(f"Forgotten. Taken off {counted(done.bills, 'bill')}; {counted(done.lines, 'line')} erased from kept files.")
    problems = [file for file in done.files if file.problem]
    for file in problems:
        print_note(f"not erased: {_file_text(file)}.")
    if problems:
        print_note(
            "delete these files, or take him out of them with the program that wrote them. A file in `done` is loaded,"
            " so nothing needs it any more. Then run the same command again."
        )
    for path in done.remains:
        print_note(f"his phone number, email address or ID is still in {printable(str(path))}. Delete or correct it.")
    if settings.database:
        print_note(
            "PostgreSQL keeps deleted rows until they are overwritten. As the owner of the schema, while nothing is"
            " loaded, run: VACUUM FULL counterfoil.members, counterfoil.accounts. Archived logs keep them until they"
            " are deleted."
        )
    elif not done.log_is_empty:
        print_note("the log of the store was in use, so it was not emptied. Run the same command again.")
    _print_backups(settings, known)
    _print_partners(known)


def _print_backups(settings: Settings, known: KnownMember) -> None:
    for backup in known.backups[:MAX_NAMED]:
        where = "" if backup.is_there else f" on {backup.machine}"
        echo(f"  perhaps in the backup {printable(backup.name)}{where} of {second(backup.at)}")
    if len(known.backups) > MAX_NAMED:
        echo(f"  and in {len(known.backups) - MAX_NAMED:,} older backups")
    if known.backups or settings.database:
        print_note(
            "nobody has looked into backups: he is in each that was made while the store had him, until you delete it"
            " or `counterfoil backup --keep` has replaced it."
            " Restoring one brings him back, unless it replaces this store: see docs/keys.md#forget-a-member."
        )


def _print_partners(known: KnownMember) -> None:
    if not known.readers:
        return
    names = ", ".join(printable(reader.label or reader.key_id) for reader in known.readers)
    echo(f"Tell each partner who has read him ({names}):")
    for line in partner_message(known.person.token):
        echo(f"  {line}")


def partner_message(token: str) -> Sequence[str]:
    return (
        f"We have erased the member {token} at his request.",
        "Run `counterfoil pull`, or read all members again; he is not returned any more. Then delete",
        "what else you hold of him: backups, exports, and everything that was made from them.",
    )


# --- JSON --------------------------------------------------------------------------------------


def _view(known: KnownMember) -> dict[str, object]:
    record = known.record
    return {
        "member": known.person.token,
        "mark": mark_of(known.person.token),
        "forgottenAt": iso_utc(known.mark.at) if known.mark else None,
        "record": None
        if record is None
        else {
            "providerId": record.provider_id,
            "createdDate": record.created_date,
            "tel": record.tel,
            "email": record.email,
            "visitCount": record.visit_count,
            "coupons": len(record.coupons),
            "accounts": len(record.accounts),
        },
        "bills": known.bills,
        "namedInBills": [{"shopId": shop_id, "id": bill_id} for shop_id, bill_id in known.text_bills],
        "shared": known.shared,
        "files": [_file_view(file) for file in known.files],
        "notSearched": known.unsearched,
        "readers": [_reader_view(reader) for reader in known.readers],
        "backups": [
            {"name": backup.name, "at": iso_utc(backup.at), "machine": backup.machine, "exists": backup.is_there}
            for backup in known.backups
        ],
    }


def _file_view(file: FoundFile) -> dict[str, object]:
    return {"path": str(file.path), "lines": file.found, "problem": file.problem or None}


def _reader_view(reader: PartnerRead) -> dict[str, object]:
    return {
        "keyId": reader.key_id,
        "label": reader.label,
        "revoked": reader.is_revoked,
        "disclosures": reader.disclosures,
        "disclosedAt": reader.disclosed_at and iso_utc(reader.disclosed_at),
        "readAt": reader.read_at and iso_utc(reader.read_at),
    }


def _done_view(done: Erased) -> dict[str, object]:
    return {
        "bills": done.bills,
        "lines": done.lines,
        "record": done.record,
        "files": [_file_view(file) for file in done.files],
        "remains": [str(path) for path in done.remains],
    }
