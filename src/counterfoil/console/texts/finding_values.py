"""Values within the findings of `status` and `doctor`, such as durations and counts."""

from typing import Final

TEXTS: Final[dict[str, tuple[str, str]]] = {
    # --- values that fill a whole placeholder ---
    "value.second": ("{count} second", "{count} วินาที"),
    "value.seconds": ("{count} seconds", "{count} วินาที"),
    "value.minutes": ("{count} minutes", "{count} นาที"),
    "value.hours": ("{count} hours", "{count} ชั่วโมง"),
    "value.days": ("{count} days", "{count} วัน"),
    "value.load_of_one_line": (
        "{lines} line, {changed} changed, {rejected} rejected",
        "{lines} บรรทัด เปลี่ยน {changed} ระเบียน ปฏิเสธ {rejected} บรรทัด",
    ),
    "value.load": (
        "{lines} lines, {changed} changed, {rejected} rejected",
        "{lines} บรรทัด เปลี่ยน {changed} ระเบียน ปฏิเสธ {rejected} บรรทัด",
    ),
    "value.line": ("{count} line", "{count} บรรทัด"),
    "value.lines": ("{count} lines", "{count} บรรทัด"),
    "value.file": ("{count} file loaded", "นำเข้า {count} ไฟล์"),
    "value.files": ("{count} files loaded", "นำเข้า {count} ไฟล์"),
    "value.key": ("{count} active key", "คีย์ที่ใช้งานได้ {count} คีย์"),
    "value.keys": ("{count} active keys", "คีย์ที่ใช้งานได้ {count} คีย์"),
    "value.shop": ("{count} shop", "{count} ร้าน"),
    "value.shops": ("{count} shops", "{count} ร้าน"),
    "value.something": ("something", "มีโปรแกรมรับอยู่"),
    "value.nothing": ("nothing", "ไม่มีโปรแกรมรับ"),
    "value.connection_refused": ("connection refused", "ปฏิเสธการเชื่อมต่อ"),
    "value.timed_out": ("timed out", "หมดเวลารอ"),
    "value.timeout": ("timeouterror", "หมดเวลารอ"),
    "value.another_program": ("another program is using this port", "โปรแกรมอื่นใช้พอร์ตนี้อยู่"),
    "value.no_permissions": ("has no permissions here", "ไม่มีสิทธิ์ที่นี่"),
    "value.can_serve": ("can serve and nothing else", "ให้บริการได้อย่างเดียว"),
    "value.can_load": ("can load and nothing else", "นำเข้าได้อย่างเดียว"),
    "value.can_issue": ("can issue keys and nothing else", "ออกคีย์ได้อย่างเดียว"),
    "value.can_load_and_issue": ("can load and issue keys, and nothing else", "นำเข้าและออกคีย์ได้เท่านั้น"),
    "value.unknown_field": (
        "unknown field {field}, which earlier loads did not have ({count} of {total} records)",
        "มีฟิลด์ {field} ที่ไม่รู้จัก ซึ่งการนำเข้าก่อน ๆ ไม่มี ({count} จาก {total} ระเบียน)",
    ),
    "value.unreadable": (
        "{share} of {kind} records have an unreadable {field} ({count} of {total}; at most {before} in earlier loads)",
        "{share} ของระเบียน {kind} มี {field} ที่อ่านไม่ได้ ({count} จาก {total} ก่อนหน้านี้ไม่เกิน {before})",
    ),
    "value.rejected": (
        "{share} of lines were rejected ({count} of {total}; at most {before} in earlier loads)",
        "{share} ของบรรทัดถูกปฏิเสธ ({count} จาก {total} ก่อนหน้านี้ไม่เกิน {before})",
    ),
    "value.undated": (
        "{share} of bills have no date ({count} of {total}; at most {before} in earlier loads)",
        "{share} ของบิลไม่มีวันที่ ({count} จาก {total} ก่อนหน้านี้ไม่เกิน {before})",
    ),
    "value.no_items": (
        "{share} of bills have no items ({count} of {total}; at most {before} in earlier loads)",
        "{share} ของบิลไม่มีรายการ ({count} จาก {total} ก่อนหน้านี้ไม่เกิน {before})",
    ),
    "value.no_amounts": (
        "{share} of bills have no amounts ({count} of {total}; at most {before} in earlier loads)",
        "{share} ของบิลไม่มียอดเงิน ({count} จาก {total} ก่อนหน้านี้ไม่เกิน {before})",
    ),
    # --- entries in lists of names ---
    "entry.silent": (
        "{name} (no bill for {span}; usually at least {usual} bills in that time)",
        "{name} (ไม่มีบิลมา {span} ปกติมีอย่างน้อย {usual} บิล)",
    ),
    "entry.near_quota": ("{name} ({count} of {quota})", "{name} ({count} จาก {quota})"),
    "entry.more": ("{entry} and {count} more", "{entry} และอีก {count}"),
}
