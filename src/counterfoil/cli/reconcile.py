"""`counterfoil reconcile`: compare a copy with the service, and mend it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date
from decimal import Decimal

import click

from counterfoil.cli.following import following
from counterfoil.cli.main import INTERRUPTED
from counterfoil.cli.options import json_option
from counterfoil.cli.pull import QUOTA_SPENT, UNREACHABLE
from counterfoil.cli.remote import Remote, remote_options, since_option
from counterfoil.cli.terminal import Column, note, print_json, table
from counterfoil.client import QuotaSpent, Unreachable
from counterfoil.client.errors import CopyMismatch, CounterfoilError
from counterfoil.client.pages import Tally
from counterfoil.client.reconcile import Difference, Reconciler, Totals
from counterfoil.client.sinks import SinkError

DIFFERENT = 3


@click.command()
@remote_options
@since_option("How far back to compare. [default: to the copy's first day, and until a year in a row is empty]")
@click.option("--fix", is_flag=True, help="Write what the service says over the days that differ.")
@json_option
def command(*, remote: Remote, since: date | None, fix: bool, as_json: bool) -> None:
    """Compare a copy with the service by shop and day, and name the days that differ.

    It is the only way to learn that the POS has removed a bill. What has
    changed since the last pull is no difference. Exit status: 0 equal or
    mended, 3 days differ, 4 quota spent, 5 the service cannot be reached, 1
    failed.
    """
    found: list[Difference] = []
    try:
        with closing(remote.target.open()) as sink, remote.client() as client, _shown() as show:
            reconciler = Reconciler(client, sink, since=since, fix=fix, on_progress=show)
            found.extend(reconciler.run())
    except KeyboardInterrupt:
        note("interrupted; days that were mended stay mended.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (CounterfoilError, SinkError, CopyMismatch) as error:
        raise _ended(error) from error
    _tell(found, reconciler, as_json)
    if reconciler.unread or (found and not fix):
        raise click.exceptions.Exit(DIFFERENT)


def _ended(error: Exception) -> click.ClickException:
    ended = click.ClickException(str(error))
    if isinstance(error, QuotaSpent | Unreachable):
        click.echo(f"counterfoil: {' '.join(str(error).split())}", err=True)
        raise click.exceptions.Exit(QUOTA_SPENT if isinstance(error, QuotaSpent) else UNREACHABLE) from error
    return ended


@contextmanager
def _shown() -> Iterator[Callable[[str, str], None]]:
    tally = Tally()
    with following() as show:

        def tell(shop_id: str, what: str) -> None:
            tally.reading = f"{shop_id}: {what}"
            show(tally)

        yield tell


# --- the result --------------------------------------------------------------------


def _tell(found: list[Difference], reconciler: Reconciler, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "equal": not found,
                "days": reconciler.days,
                "bills": reconciler.bills,
                "unread": reconciler.unread,
                "differences": [_view(difference) for difference in found],
            }
        )
        return
    if found:
        _draw(found)
    for shop_id in reconciler.unread:
        note(f"the shop {shop_id} has not been read to its end yet; run `counterfoil pull` first.")
    mended = " All were mended." if found and found[0].mended else ""
    said = f"{len(found):,} differ from the service.{mended}" if found else "the copy agrees with the service."
    click.echo(f"{reconciler.days:,} days and {reconciler.bills:,} bills compared: {said}")


def _draw(found: list[Difference]) -> None:
    columns = [Column("shop", "cyan"), Column("day", whole=True)]
    for name in ("bills", "net", "voids"):
        columns += [Column(f"{name} there", right=True), Column(f"{name} here", right=True)]
    columns += [Column(name, right=True) for name in ("missing", "removed", "different")]
    table(columns, [_row(difference) for difference in found])


def _row(difference: Difference) -> tuple[object, ...]:
    there, here = difference.service, difference.copy
    return (
        difference.shop_id,
        difference.day or "no date",
        *(f"{there.count:,}", f"{here.count:,}"),
        *(_money(there.net), _money(here.net)),
        *(there.voids, here.voids),
        *(difference.missing, difference.removed, difference.different),
    )


def _view(difference: Difference) -> dict[str, object]:
    return {
        "shopId": difference.shop_id,
        "day": difference.day,
        "service": _totals(difference.service),
        "copy": _totals(difference.copy),
        "missing": difference.missing,
        "removed": difference.removed,
        "different": difference.different,
        "mended": difference.mended,
    }


def _totals(totals: Totals) -> dict[str, object]:
    return {"count": totals.count, "net": _money(totals.net), "voids": totals.voids}


def _money(amount: Decimal) -> str:
    """Without noughts that say nothing, but two of them."""
    whole = amount.normalize()
    return f"{whole:f}" if whole.as_tuple().exponent < -2 else f"{amount:.2f}"  # type: ignore[operator]
