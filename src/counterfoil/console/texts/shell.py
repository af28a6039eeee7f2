"""The text of the page layout and of the sign-in page, and words that several pages use."""

from typing import Final

TEXTS: Final[dict[str, tuple[str, str]]] = {
    # --- page layout ---
    "skip": ("Skip to the content", "ข้ามไปยังเนื้อหา"),
    "navigation": ("Pages", "หน้าต่าง ๆ"),
    "nav.today": ("Today", "วันนี้"),
    "nav.keys": ("Keys", "คีย์"),
    "nav.requests": ("Requests", "คำขอ"),
    "nav.shops": ("Shops", "ร้าน"),
    "nav.loads": ("Loads", "การนำเข้า"),
    "nav.personal": ("Personal data", "ข้อมูลส่วนบุคคล"),
    "nav.store": ("Store", "ที่เก็บข้อมูล"),
    "nav.audit": ("Audit", "บันทึกการตรวจสอบ"),
    "nav.reference": ("API reference", "คู่มือ API (ภาษาอังกฤษ)"),
    "menu": ("Menu", "เมนู"),
    "footer": (
        "Times are in Thailand time (UTC+7), with UTC beside them. Days begin at 00:00 Thailand time.",
        "เวลาที่แสดงเป็นเวลาประเทศไทย (UTC+7) พร้อมเวลา UTC ข้าง ๆ แต่ละวันเริ่มเวลา 00:00 น. ตามเวลาประเทศไทย",
    ),
    "same.title": ("The same data elsewhere", "ข้อมูลเดียวกันในรูปแบบอื่น"),
    "same.command": ("The same data on the command line:", "คำสั่งที่ให้ผลเดียวกัน:"),
    "same.formats": ("The same data as", "ข้อมูลเดียวกันในรูปแบบ"),
    "store_title": ("The store that this console reads", "ที่เก็บข้อมูลที่คอนโซลนี้อ่าน"),
    "months": (
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
        "ม.ค. ก.พ. มี.ค. เม.ย. พ.ค. มิ.ย. ก.ค. ส.ค. ก.ย. ต.ค. พ.ย. ธ.ค.",
    ),
    "chart.table": ("Show as a table", "แสดงเป็นตาราง"),
    "chart.summary": ("{caption}: total {total}, highest value {most}.", "{caption}: รวม {total} สูงสุด {most}"),
    "chart.failed": ("Errors: {failed}.", "ข้อผิดพลาด {failed}"),
    # --- signing in ---
    "signed_in_as": ("Signed in as {name}", "เข้าใช้ในชื่อ {name}"),
    "sign_out": ("Sign out", "ออกจากระบบ"),
    "sign_in.title": ("Sign in", "เข้าสู่ระบบ"),
    "sign_in.text": (
        "There is no password. Run this command on the console's machine, and open the link that it prints:",
        "ไม่มีรหัสผ่าน ให้รันคำสั่งนี้บนเครื่องของคอนโซล แล้วเปิดลิงก์ที่แสดง:",
    ),
    "sign_in.label": ("Sign-in link", "ลิงก์เข้าสู่ระบบ"),
    "sign_in.help": (
        "If the link did not sign you in, paste it here. A link works once, and only for a short time.",
        "ถ้าลิงก์ไม่ได้พาเข้าสู่ระบบ ให้วางลิงก์ที่นี่ ลิงก์ใช้ได้ครั้งเดียวและในเวลาสั้น ๆ เท่านั้น",
    ),
    "sign_in.button": ("Sign in", "เข้าสู่ระบบ"),
    "sign_in.go_on": ("Open the console", "เปิดคอนโซล"),
    "sign_in.refused": (
        (
            "This link is not valid: it was used before, has expired, was made before this console started, or is for "
            "another console. Make a new link."
        ),
        ("ลิงก์นี้ใช้ไม่ได้: ถูกใช้ไปแล้ว หมดอายุ สร้างก่อนคอนโซลนี้เริ่มทำงาน หรือเป็นของคอนโซลอื่น กรุณาสร้างลิงก์ใหม่"),
    ),
    "sign_in.ended": (
        "Your session has ended, and nothing was changed. Sign in again.",
        "เซสชันของคุณสิ้นสุดแล้ว ไม่มีการเปลี่ยนแปลงใด ๆ กรุณาเข้าสู่ระบบอีกครั้ง",
    ),
    # --- problems ---
    "service.down": ("The API is not available.", "API ใช้งานไม่ได้"),
    "service.again": ("The service is running again.", "บริการกลับมาทำงานแล้ว"),
    "service.console_lost": (
        "The console cannot be reached. If it has stopped, run counterfoil console and open the link that it prints.",
        "ติดต่อคอนโซลไม่ได้ ถ้าคอนโซลหยุดทำงาน ให้รัน counterfoil console แล้วเปิดลิงก์ที่แสดง",
    ),
    "missing.title": ("Not found", "ไม่พบ"),
    "missing.text": ("There is no such page.", "ไม่มีหน้านี้"),
    "unavailable.title": ("The store cannot be read", "อ่านที่เก็บข้อมูลไม่ได้"),
    "form.again": ("This form was already sent", "แบบฟอร์มนี้ถูกส่งไปแล้ว"),
    "form.sent": (
        "A form can be sent only once, so nothing was done.",
        "แบบฟอร์มส่งได้เพียงครั้งเดียว จึงไม่มีการดำเนินการใด ๆ",
    ),
    "form.result": (
        "A new key is shown only once and cannot be shown again. When it was first sent, this form created the key",
        "คีย์ใหม่แสดงเพียงครั้งเดียวและแสดงซ้ำไม่ได้ ครั้งแรกได้สร้างคีย์",
    ),
    "form.unknown": (
        "This form does not belong to your session, so nothing was done. Open the page again.",
        "แบบฟอร์มนี้ไม่ใช่ของเซสชันนี้ จึงไม่มีการดำเนินการใด ๆ กรุณาเปิดหน้านี้ใหม่",
    ),
    "form.conflict": (
        "This key was changed in the meantime, so nothing was done. Check the values and try again.",
        "คีย์นี้ถูกแก้ไขในระหว่างนี้ จึงไม่มีการดำเนินการใด ๆ กรุณาตรวจสอบค่าด้านล่างแล้วลองอีกครั้ง",
    ),
    "form.number": ("A limit must be a whole number from 1 to {most}.", "ขีดจำกัดต้องเป็นจำนวนเต็มตั้งแต่ 1 ถึง {most}"),
    # --- words ---
    "finding.ok": ("ok", "ปกติ"),
    "finding.warn": ("warning", "เตือน"),
    "finding.fail": ("problem", "ปัญหา"),
    "finding.open_load": ("Open the latest load.", "เปิดการนำเข้าล่าสุด"),
    "advice.load_rejected": (
        "Read the reasons on the page of the load, fix the cause, then load the rejects file or repeat the import.",
        "อ่านสาเหตุในหน้าของการนำเข้า แก้ไขสาเหตุ แล้วนำเข้าไฟล์บรรทัดที่ถูกปฏิเสธหรือทำการ import อีกครั้ง",
    ),
    "advice.shops_silent": ("Check their tills and deliveries.", "ตรวจสอบเครื่องขายและการส่งข้อมูล"),
    "advice.keys_near": (
        "To raise a quota, open the page of the key.",
        "หากต้องการเพิ่มโควตา ให้เปิดหน้าของคีย์",
    ),
    "finding.open": ("Open the page {page}.", "เปิดหน้า{page}"),
    "time": ("Time", "เวลา"),
    "time.thailand": ("Thailand time", "เวลาประเทศไทย"),
    "day": ("Day", "วัน"),
    "hour": ("Hour", "ชั่วโมง"),
    "yesterday": ("Yesterday", "เมื่อวาน"),
    "requests": ("Requests", "คำขอ"),
    "errors": ("Errors", "ข้อผิดพลาด"),
    "error": ("Error", "ข้อผิดพลาด"),
    "route": ("Route", "เส้นทาง"),
    "status": ("Status", "สถานะ HTTP"),
    "took": ("Duration", "ระยะเวลา"),
    "count": ("Count", "จำนวน"),
    "last": ("Latest", "ล่าสุด"),
    "key": ("Key", "คีย์"),
    "shop": ("Shop", "ร้าน"),
    "base": ("Membership base", "ฐานสมาชิก"),
    "scope": ("Scope", "ขอบเขต"),
    "scope.shop": ("Shop", "ร้าน"),
    "scope.franchise": ("Franchise", "แฟรนไชส์"),
    "scope.one_shop": ("with one shop", "มีหนึ่งร้าน"),
    "scope.shops": ("with {count} shops", "มี {count} ร้าน"),
    "state": ("State", "สถานะ"),
    "unknown": ("unknown", "ไม่ทราบ"),
    "no": ("No", "ไม่มี"),
    "span.seconds": ("{count} s", "{count} วินาที"),
    "span.minutes": ("{count} min", "{count} นาที"),
    "span.hours": ("{count} h", "{count} ชั่วโมง"),
    "span.days": ("{count} days", "{count} วัน"),
    "span.ago": ("{span} ago", "{span}ที่แล้ว"),
    "via.cli": ("command line", "บรรทัดคำสั่ง"),
    "via.console": ("console", "คอนโซล"),
    "via.automatic": ("automatic", "อัตโนมัติ"),
    # --- requests that are refused before a page is opened ---
    "guard.one_host": (
        "Exactly one valid Host header is required.",
        "ต้องมีเฮดเดอร์ Host ที่ถูกต้องหนึ่งรายการเท่านั้น",
    ),
    "guard.loopback_host": (
        "Open the sign-in link of the console, or run `counterfoil console link` to get one.",
        "กรุณาเปิดลิงก์ลงชื่อเข้าใช้ของคอนโซล หรือรัน `counterfoil console link` เพื่อขอลิงก์",
    ),
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
    "guard.body_too_large": ("The body is too large.", "ข้อมูลที่ส่งมามีขนาดใหญ่เกินไป"),
    "guard.malformed": ("The request is not valid.", "คำขอไม่ถูกต้อง"),
    "guard.failed": (
        "The console failed unexpectedly. See its standard error.",
        "คอนโซลขัดข้องโดยไม่คาดคิด ดูรายละเอียดใน standard error ของคอนโซล",
    ),
}
