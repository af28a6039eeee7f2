"""The reference page of the demo: its examples use the demo's IDs, and its forms send requests with the demo's keys."""

from counterfoil.demo.showcase import Showcase
from counterfoil.http.pages import StaticPage
from counterfoil.http.reference import build
from counterfoil.http.reference.served import PATH, reference_pages
from counterfoil.http.reference.tryout import TryKey, TryOut
from counterfoil.machine.addresses import is_loopback, url
from counterfoil.settings import Settings

# Maps the purpose of a key to the operations whose forms preselect that key. Other forms preselect the first key.
_OPERATIONS = {"lookup": ("lookupMember",)}


def reference_url(settings: Settings) -> str:
    return url(settings.host, settings.port, settings.prefix + PATH)


def demo_pages(settings: Settings, demo: Showcase) -> dict[str, StaticPage]:
    """Return the demo's pages by path. If other machines can reach the demo, its pages contain no keys."""
    ids = demo.samples
    values = {
        "shopId": ids.shop_id,
        "from": ids.from_,
        "to": ids.to,
        "updatedSince": ids.updated_since,
        "billId": ids.transaction_id,
        "providerId": ids.provider_id,
        "messagingUserId": ids.messaging_user_id,
        "memberToken": ids.member_id,
    }
    reference = build(settings.prefix, url(settings.host, settings.port, f"{settings.prefix}/v1"), values)
    return reference_pages(reference, _try_out(demo) if is_loopback(settings.host) else None)


def _try_out(demo: Showcase) -> TryOut:
    keys = (
        TryKey(demo_key.role.purpose, demo_key.text, _OPERATIONS.get(demo_key.role.purpose, ()))
        for demo_key in demo.keys
    )
    return TryOut(tuple(keys))
