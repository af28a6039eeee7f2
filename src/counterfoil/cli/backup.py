"""`counterfoil backup`: back up an embedded store while it is in use, and verify the backup."""

from pathlib import Path

import click

from counterfoil import bootstrap
from counterfoil.backends.sqlite.backup import BackupManifest
from counterfoil.cli.options import existing_store, json_option, require_embedded, store_option
from counterfoil.cli.terminal import print_fields, print_json, print_note
from counterfoil.domain.calendar import iso_utc
from counterfoil.text import size


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--without-secret",
    is_flag=True,
    help="Leave the deployment secret out of the backup. You must keep your own copy of it.",
)
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, folder: Path, without_secret: bool, store: str | None, as_json: bool) -> None:
    """Back up a store to the new folder DIR. The service can keep running.

    The backup contains the three databases and the deployment secret. DIR is
    created only when the backup is complete and verified. A secret set in
    COUNTERFOIL_SECRET is not copied, and neither are rejects files.

    Exit status: 0 if the backup is complete and verified, 1 if it failed.
    """
    settings = existing_store(ctx, store)
    require_embedded(settings)
    manifest = bootstrap.back_up(settings, folder, with_secret=not without_secret)
    if as_json:
        print_json({"folder": str(folder), **_view(manifest)})
        return
    total_bytes = sum(file.size_bytes for file in manifest.files.values())
    print_fields(
        [
            ("backup", f"{folder} (verified)"),
            ("size", size(total_bytes)),
            ("bills", f"{manifest.rows('books', 'bills'):,}"),
            ("members", f"{manifest.rows('books', 'members'):,}"),
            ("keys", f"{manifest.rows('keys', 'keys'):,}"),
            ("horizon", iso_utc(manifest.horizon)),
            ("secret", "included" if manifest.has_secret else "not included"),
        ]
    )
    if not manifest.has_secret:
        print_note("the backup cannot be used without the deployment secret. Keep a copy of the secret elsewhere.")


def _view(manifest: BackupManifest) -> dict[str, object]:
    return {
        "createdAt": iso_utc(manifest.created_at),
        "horizon": iso_utc(manifest.horizon),
        "hasSecret": manifest.has_secret,
        "files": manifest.files,
    }
