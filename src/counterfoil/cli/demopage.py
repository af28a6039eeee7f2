"""Prints the addresses and keys of the demo when it is ready, as one line of JSON or as text."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from counterfoil.cli.terminal import echo, print_fields, print_json, style
from counterfoil.console.links import link_command
from counterfoil.demo.showcase import DemoKey, Showcase, reference_url
from counterfoil.domain.access import permissions
from counterfoil.machine.addresses import url
from counterfoil.machine.clock import SystemClock
from counterfoil.settings import Settings
from counterfoil.views.columns import json_row
from counterfoil.views.keys import columns

# The name and the address of each process in the demo's cluster.
Addresses = Sequence[tuple[str, str]]


def print_json_line(settings: Settings, demo: Showcase, console: str | None, **more: object) -> None:
    base = _base_url(settings)
    print_json(
        {
            "baseUrl": base,
            "openapi": f"{base}/openapi.json",
            "reference": reference_url(settings),
            "admin": url(settings.admin_host, settings.admin_port),
            "console": console,
            "store": str(settings.store),
            "keys": [_key_view(key) for key in demo.keys],
            "samples": demo.samples,
            **more,
        }
    )


def _key_view(demo_key: DemoKey) -> dict[str, object]:
    role = demo_key.role
    return {
        "purpose": role.purpose,
        "key": demo_key.text,
        **json_row(columns(SystemClock().now_ms()), demo_key.key),
        "shopId": role.shop_ids[0],
        "shopIds": role.shop_ids,
        "providerId": role.provider_ids[0] if role.provider_ids else None,
        "providerIds": role.provider_ids,
    }


def print_page(settings: Settings, demo: Showcase, console: str | None, addresses: Addresses = ()) -> None:
    base = _base_url(settings)
    _heading("Counterfoil demo", base)
    _heading("API reference", reference_url(settings))
    print_console(console, None if settings.database else settings)
    echo(f"An invented restaurant group: {demo.franchises} franchises, {demo.shops} shops, {demo.members:,} members")
    echo(f"and {demo.bills:,} bills from {demo.first_day} to {demo.last_day}.")
    echo(f"The source also had {demo.rejected:,} deliberately invalid lines, which were rejected.")
    echo()
    if addresses:
        print_addresses(addresses)
    _heading("Keys")
    for demo_key in demo.keys:
        _print_key(demo_key)
    echo()
    _heading("Try it")
    for what, line in curl_lines(base, demo):
        echo(f"# {what}", dim=True)
        echo(line)
    echo()


def print_console(console: str | None, settings: Settings | None = None) -> None:
    """Print the console's sign-in link, which works only once. If `settings` is given, say how to get another link."""
    _heading("Console", console or "could not be started")
    if console and settings:
        echo(f"  This link works once. For another link, run: {link_command(settings)}", dim=True)


def print_addresses(addresses: Addresses) -> None:
    _heading("Cluster")
    print_fields(addresses)
    echo()


def print_environment(what_for: str, environment: Mapping[str, str]) -> None:
    echo(what_for)
    echo()
    for name, value in environment.items():
        echo(f"export {name}={value}")
    echo()


def print_end(more: str = "") -> None:
    echo(f"Press Ctrl-C to stop the demo. {more}".rstrip(), bold=True)


def _print_key(demo_key: DemoKey) -> None:
    """Print a description of the key, and below it the key itself, so that both fit a narrow terminal."""
    key = demo_key.key
    about = [
        key.label,
        key.scope.kind,
        *permissions(key),
        f"{_format_limit(key.per_min)}/min, {_format_limit(key.per_day)}/day",
    ]
    state = style("  revoked", fg="red") if key.revoked_at is not None else ""
    echo(f"{style(f'{demo_key.role.purpose:<14}', fg='cyan')}  {' · '.join(about)}{state}")
    echo(f"  {demo_key.text}", bold=True)


def _format_limit(limit: int) -> str:
    return f"{limit // 1_000_000}M" if limit and limit % 1_000_000 == 0 else f"{limit:,}"


def curl_lines(base: str, demo: Showcase) -> list[tuple[str, str]]:
    """Return a description and a curl command for each endpoint."""
    ids = demo.samples
    chain, personal, lookup = (demo.key(purpose).text for purpose in ("franchise", "personal data", "lookup"))
    days = f"shopId={ids.shop_id}&from={ids.from_}&to={ids.to}"
    by_day = f"{days}&limit=2"
    by_change = f"shopId={ids.shop_id}&updatedSince={ids.updated_since}&limit=2"
    who = f"providerId={ids.provider_id}&messagingUserId={ids.messaging_user_id}"
    bill = quote(ids.transaction_id, safe="")
    return [
        ("the shops a key can read", _curl(chain, f"{base}/shops")),
        ("bills by calendar day", _curl(chain, f"{base}/transactions?{by_day}")),
        ("bills by last change", _curl(chain, f"{base}/transactions?{by_change}")),
        ("everything that the key can read, then only changes", _curl(chain, f"{base}/changes?limit=2")),
        ("totals per shop and day, to check a copy", _curl(chain, f"{base}/digests?{days}")),
        ("one bill", _curl(chain, f"{base}/transactions/{bill}")),
        ("members, with tel and email", _curl(personal, f"{base}/members?providerId={ids.provider_id}&limit=2")),
        ("a member by messaging user ID", _curl(lookup, f"{base}/members/lookup?{who}")),
        ("one member", _curl(chain, f"{base}/members/{ids.member_id}")),
        ("requests made with the key", _curl(chain, f"{base}/usage")),
        ("the OpenAPI document, no key needed", f"curl -s '{base}/openapi.json'"),
    ]


def _curl(key: str, address: str) -> str:
    return f"curl -s -H 'Authorization: Bearer {key}' '{address}'"


def _heading(text: str, more: str = "") -> None:
    echo(f"{style(text, bold=True, fg='green')}  {more}".rstrip())


def _base_url(settings: Settings) -> str:
    return url(settings.host, settings.port, f"{settings.prefix}/v1")
