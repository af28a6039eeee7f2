"""What the conversion of an export needs of the settings and of the store: limits, and the shops and bases it knows."""

from counterfoil import bootstrap
from counterfoil.importer.protocol import StoredShop
from counterfoil.importing.mapping import KnownBase
from counterfoil.ingest.conversion_process import ConversionLimits
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings


def conversion_limits(settings: Settings) -> ConversionLimits:
    return ConversionLimits(
        memory_mib=settings.import_memory_mb, seconds=60 * settings.import_minutes, output_mib=settings.import_output_mb
    )


def known_shops(settings: Settings) -> list[StoredShop]:
    """Return the shops that the store knows, or none if it cannot be read."""
    if bootstrap.is_without_store(settings):
        return []
    try:
        reads = bootstrap.store(settings).reads()
        shops = [known.facts for known in reads.known_facts()]
        names = {shop.shop_id: shop.shop_name for shop in reads.shop_names()}
    except (StoreUnavailable, StoreMismatch):
        return []
    return [
        StoredShop(
            id=shop.shop_id,
            name=names.get(shop.shop_id),
            franchise_id=shop.franchise_id,
            timezone=shop.timezone,
            closing_time=shop.closing,
        )
        for shop in shops
    ]


def known_franchises(settings: Settings) -> list[str]:
    """Return the franchises of the shops that the store knows."""
    try:
        found = [] if bootstrap.is_without_store(settings) else bootstrap.store(settings).reads().known_facts()
    except (StoreUnavailable, StoreMismatch):
        return []
    return sorted({shop.facts.franchise_id for shop in found if shop.facts.franchise_id})


def known_bases(settings: Settings) -> list[KnownBase]:
    """Return the membership bases that the store knows, or none if it cannot be read."""
    try:
        found = [] if bootstrap.is_without_store(settings) else bootstrap.store(settings).reads().bases()
    except (StoreUnavailable, StoreMismatch):
        return []
    known = []
    for base in found:
        tiers = tuple(tier.code for tier in base.tiers if tier.code)
        known.append(KnownBase(id=base.provider_id, tiers=tiers, credit_enabled=base.credit_enabled))
    return known
