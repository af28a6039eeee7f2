"""What is known of a customer who asks what is stored about him, or to be forgotten: an answer to a form of Find.

The page has counts, days and the member's token, which forgets him, but not his phone number, email address or ID.
"""

from msgspec import Struct

from counterfoil.checks.forgetting import Forgetting, KnownMember
from counterfoil.console.visit import ConsolePage, Visit

PATH = "/find/customer"
MAX_ENTERED = 320
# Of more members with the same phone number, only the first are shown.
MAX_MEMBERS = 5


class MemberView(Struct, frozen=True):
    found: list[KnownMember]
    # Whether there are more members than are shown.
    has_more: bool
    # The option of the command that names the store.
    store_option: str

    def command(self, member: KnownMember) -> str:
        return f"counterfoil members forget {member.person.token}{self.store_option}"


def look_up(visit: Visit, entered: str) -> MemberView:
    """Return what is known of the members with this ID, token, phone number or email address."""
    forgetting = Forgetting(visit.settings, visit.now)
    persons = forgetting.persons(entered)
    known = [forgetting.stored(person) for person in persons[:MAX_MEMBERS]]
    found = [member for member in known if member.mark or not member.is_nothing]
    return MemberView(found, len(persons) > MAX_MEMBERS, visit.store_option)


PAGE = ConsolePage[MemberView](name="find", template="member", role="operator")
