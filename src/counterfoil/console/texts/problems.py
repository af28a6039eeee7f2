"""The error codes of the API, the reasons for rejected lines, and the fields of audit entries.

The English texts about errors and rejected lines are those of the error table, the reference page and the loader. A
test compares them.
"""

from typing import Final

_RETRY = ("Retry with increasing delays.", "ลองใหม่โดยเว้นช่วงให้นานขึ้นเรื่อย ๆ")

TEXTS: Final[dict[str, tuple[str, str]]] = {
    # --- error codes: the message ---
    "error_message.bad_query": ("A parameter is missing or invalid.", "พารามิเตอร์ขาดหรือไม่ถูกต้อง"),
    "error_message.bad_cursor": (
        "The cursor is not valid here or its row no longer exists; start again without a cursor.",
        "เคอร์เซอร์ใช้ที่นี่ไม่ได้หรือแถวไม่มีอยู่แล้ว ให้เริ่มใหม่โดยไม่ใส่เคอร์เซอร์",
    ),
    "error_message.mark_expired": (
        "The mark is too old, or the data was restored from a backup; start again without since.",
        "เครื่องหมายเก่าเกินไป หรือข้อมูลถูกกู้คืนจากสำเนาสำรอง ให้เริ่มใหม่โดยไม่ใส่ since",
    ),
    "error_message.not_supported": (
        "This parameter is not available on this endpoint.",
        "ใช้พารามิเตอร์นี้กับปลายทางนี้ไม่ได้",
    ),
    "error_message.invalid_key": ("The API key is missing or not valid.", "ไม่มีคีย์ API หรือคีย์ไม่ถูกต้อง"),
    "error_message.key_revoked": ("This API key has been revoked.", "คีย์ API นี้ถูกเพิกถอนแล้ว"),
    "error_message.cross_origin_refused": (
        "Requests from web pages are refused; call this API from a server.",
        "ไม่รับคำขอจากหน้าเว็บ ให้เรียก API จากเซิร์ฟเวอร์",
    ),
    "error_message.shop_not_in_scope": ("This key does not cover that shop.", "คีย์นี้ไม่ครอบคลุมร้านนั้น"),
    "error_message.provider_not_in_scope": (
        "This key does not cover that membership base.",
        "คีย์นี้ไม่ครอบคลุมฐานสมาชิกนั้น",
    ),
    "error_message.lookup_not_enabled": (
        "This key has no permission to look up members by messaging user ID.",
        "คีย์นี้ไม่มีสิทธิ์ค้นหาสมาชิกจากบัญชีแชต",
    ),
    "error_message.not_found": ("Not found, or not readable with this key.", "ไม่พบ หรืออ่านด้วยคีย์นี้ไม่ได้"),
    "error_message.method_not_allowed": (
        "This service is read-only: use GET or HEAD.",
        "บริการนี้อ่านได้อย่างเดียว: ใช้ GET หรือ HEAD",
    ),
    "error_message.rate_limited": (
        "Too many requests in the last minute; wait and retry.",
        "คำขอมากเกินไปในนาทีที่ผ่านมา ให้รอแล้วลองใหม่",
    ),
    "error_message.quota_exceeded": (
        "The daily quota is used up; it resets at midnight, Thailand time.",
        "โควตาของวันหมดแล้ว จะเริ่มใหม่เวลาเที่ยงคืนตามเวลาประเทศไทย",
    ),
    "error_message.internal": (
        "The service failed unexpectedly; retry with increasing delays.",
        "บริการขัดข้องโดยไม่คาดคิด ให้ลองใหม่โดยเว้นช่วงให้นานขึ้นเรื่อย ๆ",
    ),
    "error_message.auth_unavailable": (
        "Keys cannot be checked at the moment; this is not a problem with your key. Retry with increasing delays.",
        "ขณะนี้ตรวจสอบคีย์ไม่ได้ ไม่ใช่ปัญหาของคีย์ ให้ลองใหม่โดยเว้นช่วงให้นานขึ้นเรื่อย ๆ",
    ),
    # --- error codes: what the integrator should do ---
    "error_action.bad_query": (
        "Fix the request. The same request will fail again.",
        "แก้ไขคำขอ คำขอเดิมจะล้มเหลวอีก",
    ),
    "error_action.bad_cursor": ("Start this list again without a cursor.", "เริ่มอ่านรายการนี้ใหม่โดยไม่ใส่เคอร์เซอร์"),
    "error_action.mark_expired": (
        "Delete your copy and the mark, then start again without `since`.",
        "ลบสำเนาและเครื่องหมาย แล้วเริ่มใหม่โดยไม่ใส่ `since`",
    ),
    "error_action.not_supported": ("Leave the parameter out.", "ไม่ต้องใส่พารามิเตอร์นี้"),
    "error_action.invalid_key": (
        "Stop and check your configuration. Do not retry.",
        "หยุดและตรวจสอบการตั้งค่า อย่าลองซ้ำ",
    ),
    "error_action.key_revoked": (
        "Stop and ask your operator for a new key.",
        "หยุดและขอคีย์ใหม่จากผู้ดูแล",
    ),
    "error_action.cross_origin_refused": (
        "Call from your server, without browser headers.",
        "เรียกจากเซิร์ฟเวอร์ โดยไม่มีส่วนหัวของเบราว์เซอร์",
    ),
    "error_action.shop_not_in_scope": (
        "Call `GET /v1/shops` to see which shops the key covers.",
        "เรียก `GET /v1/shops` เพื่อดูว่าคีย์ครอบคลุมร้านใด",
    ),
    "error_action.provider_not_in_scope": (
        "Call `GET /v1/shops` to see which bases the key covers.",
        "เรียก `GET /v1/shops` เพื่อดูว่าคีย์ครอบคลุมฐานสมาชิกใด",
    ),
    "error_action.lookup_not_enabled": ("Ask your operator for the permission.", "ขอสิทธิ์จากผู้ดูแล"),
    "error_action.not_found": (
        "Treat the resource as absent. If the path does not exist, check the URL.",
        "ถือว่าไม่มีข้อมูลนี้ ถ้าไม่มีเส้นทางนี้ ให้ตรวจสอบ URL",
    ),
    "error_action.method_not_allowed": ("Use GET.", "ใช้ GET แทน"),
    "error_action.rate_limited": (
        "Wait as many seconds as `Retry-After` says, then continue.",
        "รอตามจำนวนวินาทีใน `Retry-After` แล้วทำต่อ",
    ),
    "error_action.quota_exceeded": ("Stop until 00:00 Thailand time.", "หยุดจนถึง 00:00 น. ตามเวลาประเทศไทย"),
    "error_action.internal": _RETRY,
    "error_action.auth_unavailable": _RETRY,
    # --- reasons for rejected lines; each follows the words "The line" ---
    "reject.not_json": ("is not a JSON object", "ไม่ใช่ออบเจกต์ JSON"),
    "reject.not_utf8": ("is not valid UTF-8", "ไม่ใช่ข้อความ UTF-8"),
    "reject.unknown_kind": (
        "has no kind, or a kind other than shop, base, member or bill",
        "ไม่มี kind หรือ kind ไม่ใช่ shop, base, member หรือ bill",
    ),
    "reject.no_id": ("has no usable id", "ไม่มี id ที่ใช้ได้"),
    "reject.no_shop": ("is a bill without shopId", "เป็นบิลที่ไม่มี shopId"),
    "reject.no_base": ("is a member without providerId", "เป็นสมาชิกที่ไม่มี providerId"),
    "reject.unknown_shop": ("is a bill of a shop that is not loaded yet", "เป็นบิลของร้านที่ยังไม่ได้นำเข้า"),
    "reject.too_long": ("is longer than 2 MiB", "ยาวเกิน 2 MiB"),
    "reject.too_large": (
        "needs more than 512 KiB of storage, or has a channel or tier name longer than 4 KiB",
        "ใช้พื้นที่เกิน 512 KiB หรือมีชื่อช่องทางหรือระดับสมาชิกยาวเกิน 4 KiB",
    ),
    "reject.unknown_field": ("has an unknown field (--strict)", "มีฟิลด์ที่ไม่รู้จัก (--strict)"),
    "reject.unreadable_value": (
        "has a value that cannot be read (--strict)",
        "มีค่าที่อ่านไม่ได้ (--strict)",
    ),
    "reject.import_bad_row": (
        "cannot be split into the columns of the header row, or is not text in the file's encoding",
        "แบ่งเป็นคอลัมน์ตามแถวหัวตารางไม่ได้ หรือไม่ใช่ข้อความในการเข้ารหัสของไฟล์",
    ),
    "reject.import_no_id": (
        "has no valid bill ID",
        "ไม่มีรหัสบิลที่ใช้ได้",
    ),
    "reject.import_no_shop": (
        "does not say which shop the bill belongs to",
        "ไม่ได้ระบุว่าบิลเป็นของร้านใด",
    ),
    "reject.import_no_time": (
        "has no bill time",
        "ไม่มีเวลาของบิล",
    ),
    "reject.import_unreadable_value": (
        "has a value that is not in the expected format",
        "มีค่าที่ไม่อยู่ในรูปแบบที่กำหนด",
    ),
    "reject.import_no_bill": (
        "belongs to a bill that is not in the bills file",
        "เป็นของบิลที่ไม่มีในไฟล์บิล",
    ),
    "reject.import_repeated_bill": (
        "repeats the ID of an earlier bill in the same file",
        "มีรหัสซ้ำกับบิลก่อนหน้าในไฟล์เดียวกัน",
    ),
    "reject.import_different_rows": (
        "disagrees with another row of the same bill",
        "ขัดแย้งกับแถวอื่นของบิลเดียวกัน",
    ),
    "reject.import_other_currency": (
        "is in another currency",
        "เป็นสกุลเงินอื่น",
    ),
    "reject.import_not_an_order": (
        "is not an order that can be read",
        "ไม่ใช่คำสั่งซื้อที่อ่านได้",
    ),
    # --- fields of audit entries ---
    "audit_field.scope": ("scope", "ขอบเขต"),
    "audit_field.label": ("label", "ป้ายชื่อ"),
    "audit_field.perMin": ("requests per 60 seconds", "คำขอต่อ 60 วินาที"),
    "audit_field.perDay": ("requests per day", "คำขอต่อวัน"),
    "audit_field.permissions": ("permissions", "สิทธิ์"),
    "audit_field.successorOf": ("successor of", "สืบต่อจาก"),
    "audit_field.successor": ("successor", "คีย์ที่สืบต่อ"),
    "audit_field.revokesAt": ("works until", "ใช้ได้ถึง"),
    "audit_field.revokedAt": ("revoked at", "เพิกถอนเมื่อ"),
}
