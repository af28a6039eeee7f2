"""Says in words what an audit entry is about: its act, who did it, and what changed."""

from collections.abc import Iterator
from typing import Final

from counterfoil.console.display import name_of
from counterfoil.console.key_parts import PERMISSION_NAMES, ScopeNames, scope_text
from counterfoil.console.texts import Texts
from counterfoil.domain.audit import AuditEntry, FieldValue
from counterfoil.model.text import translatable
from counterfoil.views.audit import changed_values, shown_value

ACT_NAMES: Final = {
    "console_link_made": translatable("sign-in link made"),
    "console_signed_in": translatable("signed in"),
    "console_signed_out": translatable("signed out"),
    "delivery_accepted": translatable("held delivery accepted"),
    "delivery_discarded": translatable("held delivery discarded"),
    "device_revoked": translatable("device revoked"),
    "file_accepted": translatable("totals of a file accepted"),
    "file_discarded": translatable("file discarded"),
    "file_brought_in": translatable("file brought in"),
    "file_recreated": translatable("file recreated"),
    "items_resolved": translatable("open items closed by hand"),
    "key_changed": translatable("key changed"),
    "key_issued": translatable("key issued"),
    "key_revoked": translatable("key revoked"),
    "key_rotated": translatable("key rotated"),
    "load_undone": translatable("load undone"),
    "mapping_accepted": translatable("mapping of an export accepted"),
    "member_forgotten": translatable("member forgotten"),
    "member_looked_up": translatable("member looked up"),
    "records_pruned": translatable("records pruned"),
    "reject_revealed": translatable("rejected line shown"),
    "revocation_restored": translatable("revocation restored"),
    "revocation_scheduled": translatable("revocation scheduled"),
    "roles_granted": translatable("roles granted"),
    "schema_migrated": translatable("schema migrated"),
    "shop_changed": translatable("shop changed"),
    "shop_removed": translatable("shop removed"),
    "store_backed_up": translatable("store backed up"),
    "store_created": translatable("store created"),
    "store_moved": translatable("store moved"),
    "store_restored": translatable("store restored"),
    "tables_distributed": translatable("tables distributed"),
}
# Values that are words of Counterfoil, by the field that has them.
_WORDS: Final = {
    "bills": {"removed": translatable("removed"), "made void": translatable("made void")},
    "role": {"reader": translatable("reader"), "operator": translatable("operator")},
}
_VIA_NAMES: Final = {
    "automatic": translatable("automatic"),
    "cli": translatable("command line"),
    "console": translatable("console"),
}
FIELD_NAMES: Final = {
    "bills": translatable("bills"),
    "closingTime": translatable("closing time"),
    "days": translatable("days"),
    "device": translatable("device"),
    "franchiseId": translatable("franchise ID"),
    "label": translatable("label"),
    "line": translatable("line"),
    "load": translatable("load"),
    "members": translatable("members"),
    "name": translatable("name"),
    "perDay": translatable("requests per day"),
    "perMin": translatable("requests per 60 seconds"),
    "permissions": translatable("permissions"),
    "providerId": translatable("base ID"),
    "revokedAt": translatable("revoked at"),
    "revokesAt": translatable("works until"),
    "role": translatable("role"),
    "scope": translatable("scope"),
    "shop": translatable("shop"),
    "successor": translatable("successor"),
    "successorOf": translatable("successor of"),
    "timezone": translatable("time zone"),
}


def act_name(t: Texts, act: str) -> str:
    """Return the name of an audited action. Actions that a newer version has stored may have no text."""
    return t.gettext(ACT_NAMES[act]) if act in ACT_NAMES else act.replace("_", " ")


def via_name(t: Texts, entry: AuditEntry) -> str:
    via = entry.actor.via
    return t.gettext(_VIA_NAMES[via]) if via in _VIA_NAMES else via


def describe_entry(t: Texts, names: ScopeNames, entry: AuditEntry) -> str:
    """Return a sentence about an entry: what was done, by whom, and what changed, if anything."""
    changes = "; ".join(change_texts(t, names, entry)) or entry.detail
    values = {"act": act_name(t, entry.act), "name": name_of(entry.actor.name), "via": via_name(t, entry)}
    if not changes:
        return t.gettext("Latest change: %(act)s by %(name)s (%(via)s).", **values)
    return t.gettext("Latest change: %(act)s by %(name)s (%(via)s), %(changes)s.", **values, changes=changes)


def change_texts(t: Texts, names: ScopeNames, entry: AuditEntry) -> Iterator[str]:
    """Yield each change with the names of its field, scopes and permissions in the reader's language."""
    for name, values in changed_values(entry):
        field = t.gettext(FIELD_NAMES[name]) if name in FIELD_NAMES else name_of(name)
        shown = " → ".join(_value_text(t, names, name, value) for value in values)
        yield f"{field}: {name_of(shown)}"


def _value_text(t: Texts, names: ScopeNames, field: str, value: FieldValue) -> str:
    if field == "scope" and isinstance(value, str):
        kind, _, identifier = value.partition(" ")
        return scope_text(t, names, kind, identifier)
    if field == "permissions" and isinstance(value, list):
        return ", ".join(t.gettext(PERMISSION_NAMES.get(permission, permission)) for permission in value)
    if field in _WORDS and isinstance(value, str):
        return t.gettext(_WORDS[field].get(value, value))
    return shown_value(field, value, "–")
