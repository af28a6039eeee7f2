"""The message that an operator sends to the holder of a key. It never contains the key."""

from counterfoil.domain.access import Key
from counterfoil.model.text import counted
from counterfoil.program.times import minute

# Sections of the reference page, which is generated from the OpenAPI document.
FIRST_CALL, KEEPING_A_COPY = "first-call", "guide-keeping-a-copy"


def welcome(key: Key, base_url: str, shops: int | None, *, is_reference_served: bool) -> str:
    """Return the message. `shops` is how many shops of a franchise the key can read today, if that is known."""
    base_url = base_url.rstrip("/")
    scope = f"{key.scope.kind} {key.scope.id}"
    if key.scope.kind == "franchise" and shops is not None:
        scope += f" ({counted(shops, 'shop')} today)"
    contacts = "with telephone numbers and email addresses" if key.personal_data else "without contact details"
    facts = [
        ("Base URL", base_url),
        ("Key ID", key.key_id),
        ("Scope", scope),
        ("Data", f"shops, bills, and members {contacts}"),
        ("Limits", f"{counted(key.per_min, 'request')} in any 60 seconds, {key.per_day:,} per day"),
        ("", "A day begins at midnight in Thailand (UTC+7)."),
    ]
    if key.messaging_lookup:
        facts.append(("Also", "members/lookup finds a member by a messaging user ID"))
    if key.revokes_at is not None:
        facts.append(("Ends", minute(key.revokes_at)))
    lines = ["You can now read data of our shops over HTTPS.", ""]
    for name, value in facts:
        lines.append(f"{name:<10}{value}")
    lines += [
        "",
        f"You get the key itself in another way. It begins with cf_live_{key.key_id}_.",
        "Keep it on a server, because web pages are refused. If anybody else has seen it, tell us at once.",
        "When you ask about a request, send us its X-Request-Id and the key ID, never the key.",
        "",
        "A first request, with the key in the variable KEY:",
        "",
        f'  curl -s -H "Authorization: Bearer $KEY" {base_url}/shops',
        "",
        "Three pages to read:",
        "",
    ]
    reference = f"{base_url.removesuffix('/v1')}/reference"
    if is_reference_served:
        lines.append(f"1. Endpoints, fields, errors and limits: {reference}#{FIRST_CALL}")
        lines.append(f"2. Keeping a copy up to date: {reference}#{KEEPING_A_COPY}")
    else:
        lines.append("1. Endpoints, fields, errors and limits: reference.html, attached")
        lines.append('2. Keeping a copy up to date: the section "Keeping a copy" in reference.html')
    lines.append(f"3. The OpenAPI document, from which tools make clients: {base_url}/openapi.json")
    return "\n".join(lines)
