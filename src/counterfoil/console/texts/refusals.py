"""Messages about refused requests, and about refused changes to keys as `key_issuing` reports them."""

from typing import Final

TEXTS: Final[dict[str, tuple[str, str]]] = {
    # --- requests that are refused before a page is opened ---
    "guard.one_host": ("Exactly one Host header is required.", "ต้องมีเฮดเดอร์ Host หนึ่งรายการเท่านั้น"),
    "guard.unknown_host": (
        "Unknown host name. Add it to the setting console_names.",
        "ไม่รู้จักชื่อโฮสต์นี้ กรุณาเพิ่มในการตั้งค่า console_names",
    ),
    "guard.method": ("Only GET, HEAD and POST are allowed.", "ใช้ได้เฉพาะ GET, HEAD และ POST"),
    "guard.foreign_read": (
        "Other web sites must not load anything from the console.",
        "เว็บไซต์อื่นโหลดข้อมูลจากคอนโซลไม่ได้",
    ),
    "guard.foreign_form": (
        "Forms are accepted only from pages of this console.",
        "รับแบบฟอร์มจากหน้าของคอนโซลนี้เท่านั้น",
    ),
    "guard.not_url_encoded": ("The body of a form must be URL-encoded.", "ข้อมูลของแบบฟอร์มต้องเข้ารหัสแบบ URL"),
    "guard.no_length": ("A Content-Length header is required.", "ต้องมีเฮดเดอร์ Content-Length"),
    "guard.wrong_length": ("The Content-Length header is not valid.", "เฮดเดอร์ Content-Length ไม่ถูกต้อง"),
    "guard.body_too_large": ("The body is too large.", "ข้อมูลที่ส่งมามีขนาดใหญ่เกินไป"),
    "guard.malformed": ("The request is not valid.", "คำขอไม่ถูกต้อง"),
    "guard.failed": (
        "The console failed unexpectedly. See its standard error.",
        "คอนโซลขัดข้องโดยไม่คาดคิด ดูรายละเอียดใน standard error ของคอนโซล",
    ),
    # --- refused changes to keys ---
    "refusal.revoked": (
        "Key {key_id} is revoked and cannot be rotated; issue a new key instead.",
        "คีย์ {key_id} ถูกเพิกถอนแล้ว จึงหมุนเวียนไม่ได้ กรุณาออกคีย์ใหม่",
    ),
    "refusal.change_revoked": (
        "Key {key_id} is revoked, so it cannot be changed. Issue a new key instead.",
        "คีย์ {key_id} ถูกเพิกถอนแล้ว จึงเปลี่ยนไม่ได้ กรุณาออกคีย์ใหม่",
    ),
    "refusal.past": (
        "The time of a scheduled revocation must be in the future.",
        "เวลาที่กำหนดเพิกถอนต้องเป็นเวลาในอนาคต",
    ),
    "refusal.limit": (
        "{limit} must be between 1 and {most}, not {number}.",
        "{limit}ต้องอยู่ระหว่าง 1 ถึง {most} ไม่ใช่ {number}",
    ),
    "refusal.label": (
        "A label must not be longer than {most} characters.",
        "ป้ายชื่อต้องยาวไม่เกิน {most} อักขระ",
    ),
    "refusal.label_characters": (
        "A label must not contain line breaks, control characters or invalid UTF-8.",
        "ป้ายชื่อต้องไม่มีการขึ้นบรรทัดใหม่ อักขระควบคุม หรือ UTF-8 ที่ไม่ถูกต้อง",
    ),
    "refusal.blank_id": (
        "{id} must not be blank.",
        "{id}ต้องไม่ว่าง",
    ),
    "refusal.id_characters": (
        "{id} must not contain line breaks, control characters or invalid UTF-8.",
        "{id}ต้องไม่มีการขึ้นบรรทัดใหม่ อักขระควบคุม หรือ UTF-8 ที่ไม่ถูกต้อง",
    ),
    "refusal.long_id": (
        "{id} must not be longer than {most} bytes.",
        "{id}ต้องยาวไม่เกิน {most} ไบต์",
    ),
    "refusal.unknown_key": (
        "There is no key {key_id} in this store. Run `counterfoil keys list` to see all keys.",
        "ไม่มีคีย์ {key_id} ในที่เก็บข้อมูลนี้ รัน `counterfoil keys list` เพื่อดูคีย์ทั้งหมด",
    ),
    # The texts that replace {limit} and {id} above.
    "value.limit_per_minute": ("The limit per minute", "ขีดจำกัดต่อนาที"),
    "value.limit_per_day": ("The limit per day", "ขีดจำกัดต่อวัน"),
    "value.shop_id": ("A shop ID", "รหัสร้าน"),
    "value.franchise_id": ("A franchise ID", "รหัสแฟรนไชส์"),
}
