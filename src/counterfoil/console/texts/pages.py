"""The text that all pages share, and of all pages that are not about keys."""

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
    # --- pages ---
    # --- today ---
    "today.command": ("The findings on the command line:", "ผลการตรวจสอบบนบรรทัดคำสั่ง:"),
    "today.title": ("Today", "วันนี้"),
    "today.well": ("Everything is well.", "ทุกอย่างเรียบร้อย"),
    "today.warn": ("Needs attention:", "ควรตรวจสอบ:"),
    "today.fail": ("Something is wrong:", "มีปัญหา:"),
    "today.others": ("Other findings: {count}", "ข้อสังเกตอื่น: {count}"),
    "today.requests": ("Requests today", "คำขอวันนี้"),
    "today.usual": ("{count} per day in the last 7 days", "เฉลี่ยวันละ {count} ใน 7 วันที่ผ่านมา"),
    "today.errors": ("Errors today", "ข้อผิดพลาดวันนี้"),
    "today.usual_errors": ("{share} in the last 7 days", "{share} ใน 7 วันที่ผ่านมา"),
    "today.errors_today": ("Errors today", "ข้อผิดพลาดวันนี้"),
    "today.horizon": ("Delay of new data", "ความล่าช้าของข้อมูลใหม่"),
    "today.horizon_note": (
        "until integrators can read it (the age of the horizon)",
        "กว่าผู้เชื่อมต่อจะอ่านข้อมูลใหม่ได้ (อายุของ horizon)",
    ),
    "today.load": ("Last load", "การนำเข้าล่าสุด"),
    "today.rejected": ("Lines rejected: {count}", "บรรทัดที่ถูกปฏิเสธ {count}"),
    "today.near_quota": ("Keys near their quota", "คีย์ที่ใกล้เต็มโควตา"),
    "today.near_quota_none": ("all keys are below 80%", "ทุกคีย์ต่ำกว่า 80%"),
    "today.disk": ("Free disk space", "พื้นที่ดิสก์ว่าง"),
    "today.database": ("on the database server", "บนเซิร์ฟเวอร์ฐานข้อมูล"),
    "today.store_size": ("the store uses {size}", "ที่เก็บข้อมูลใช้ {size}"),
    "today.chart": ("Requests per day", "คำขอต่อวัน"),
    "today.silent": ("Silent shops", "ร้านที่เงียบ"),
    "today.keys": ("Busiest keys", "คีย์ที่ใช้มากที่สุด"),
    "today.keys_caption": ("Keys with the most requests yesterday", "คีย์เรียงตามจำนวนคำขอเมื่อวาน"),
    "today.no_keys": (
        "No key was used today or yesterday.",
        "ไม่มีการใช้คีย์ในวันนี้หรือเมื่อวาน",
    ),
    # --- shops ---
    "shops.title": ("Shops", "ร้าน"),
    "shops.caption": ("Loaded shops, silent ones first", "ร้านที่นำเข้าแล้ว ร้านที่เงียบอยู่ก่อน"),
    "shops.some_silent": (
        "Shops that have been silent for longer than usual: {count}. Check their tills and deliveries.",
        "มี {count} ร้านเงียบนานกว่าปกติ ควรตรวจสอบเครื่องขายและการส่งข้อมูล",
    ),
    "shops.none_silent": ("No shop has been silent for longer than usual.", "ไม่มีร้านใดเงียบนานกว่าปกติ"),
    "shops.none": ("No shops are loaded yet. Run counterfoil load.", "ยังไม่มีร้านที่นำเข้า ให้รัน counterfoil load"),
    "shops.last_bill": ("Last bill", "บิลล่าสุด"),
    "shops.today": ("Bills today", "บิลวันนี้"),
    "shops.usual_since": ("Usual since then", "ปกติตั้งแต่นั้น"),
    "shops.usual": ("Usual by now", "ปกติถึงเวลานี้"),
    "shops.franchise_and_base": ("Franchise, membership base", "แฟรนไชส์ ฐานสมาชิก"),
    "shops.days": ("Last 14 days", "14 วันที่ผ่านมา"),
    "shops.silent": ("silent", "เงียบ"),
    "shops.few": ("fewer than usual", "น้อยกว่าปกติ"),
    "shops.open": ("as usual", "ตามปกติ"),
    "shops.learning": ("learning", "กำลังเรียนรู้"),
    "shops.closed": ("closed", "ปิด"),
    "shops.empty": ("no bills", "ไม่มีบิล"),
    "shops.explained": (
        (
            "Usual numbers are medians for the same days and times in the last 4 weeks, or in a shop's first week the "
            "mean of earlier days. Learning: the first bill is less than 3 days old. Usual since then: bills in the "
            "time since the last bill, up to one week. Fewer than usual: fewer than half of the usual bills today, but "
            "not silent."
        ),
        (
            "จำนวนปกติคือค่ามัธยฐานของช่วงเวลาเดียวกันใน 4 สัปดาห์ที่ผ่านมา หรือค่าเฉลี่ยของวันก่อน ๆ ในสัปดาห์แรกของร้าน "
            "กำลังเรียนรู้: บิลแรกยังไม่ครบ 3 วัน ปกติตั้งแต่นั้น: ในช่วงหลังบิลล่าสุด ไม่เกินหนึ่งสัปดาห์ "
            "น้อยกว่าปกติ: วันนี้มีบิลน้อยกว่าครึ่งของปกติ แต่ยังไม่นับว่าเงียบ"
        ),
    ),
    "shops.silent_means": (
        (
            "A shop is silent if it has had no bill for a period in which it usually has {count} or more. "
            "After 4 weeks without a bill, it counts as closed."
        ),
        "ร้านเงียบหมายถึงปกติมีอย่างน้อย {count} บิลในช่วงเวลาหลังบิลล่าสุด และถือว่าปิดหลังจากไม่มีบิล 4 สัปดาห์",
    ),
    # --- loads ---
    "loads.title": ("Loads", "การนำเข้า"),
    "loads.latest": ("Latest loads", "การนำเข้าล่าสุด"),
    "loads.caption": ("Loads, newest first", "การนำเข้า ใหม่สุดก่อน"),
    "loads.none": ("Nothing has been loaded yet. Run counterfoil load.", "ยังไม่มีการนำเข้า ให้รัน counterfoil load"),
    "loads.reasons": ("Rejected lines by reason", "บรรทัดที่ถูกปฏิเสธตามสาเหตุ"),
    "loads.reasons_caption": ("Rejected lines of the latest {count} loads", "บรรทัดที่ถูกปฏิเสธของการนำเข้า {count} ครั้งล่าสุด"),
    "load.title": ("Load {number}", "การนำเข้าที่ {number}"),
    "load.missing": (
        "There is no load {number}, or it is not among the latest 100 loads.",
        "ไม่มีการนำเข้าที่ {number} หรือไม่อยู่ใน 100 ครั้งล่าสุด",
    ),
    "load.started": ("Started", "เริ่ม"),
    "load.finished_at": ("Finished", "เสร็จ"),
    "load.source": ("Source", "แหล่งข้อมูล"),
    "load.took": ("Duration", "ระยะเวลา"),
    "load.lines": ("Lines", "บรรทัด"),
    "load.changed": ("Changed", "เปลี่ยน"),
    "load.rejected": ("Rejected", "ปฏิเสธ"),
    "load.finished": ("finished", "เสร็จแล้ว"),
    "load.some_rejected": ("finished, lines rejected", "เสร็จแล้ว มีบรรทัดที่ถูกปฏิเสธ"),
    "load.all_rejected": ("all lines rejected", "ถูกปฏิเสธทุกบรรทัด"),
    "load.running": ("running", "กำลังนำเข้า"),
    "load.stopped": ("stopped", "หยุดกลางคัน"),
    "load.stopped_text": (
        (
            "This load did not finish. If it printed an error message, correct the cause. Then run the same command "
            "again; records that are already loaded are skipped."
        ),
        ("การนำเข้านี้ไม่เสร็จสมบูรณ์ ถ้ามีข้อความแสดงข้อผิดพลาด ให้แก้ไขสาเหตุก่อน แล้วรันคำสั่งเดิมอีกครั้ง ระเบียนที่นำเข้าแล้วจะถูกข้าม"),
    ),
    "load.reason": ("Reason", "สาเหตุ"),
    "load.means": ("Meaning", "ความหมาย"),
    "load.line_that": ("The line ", "บรรทัด"),
    "load.rejects": ("Rejected lines", "บรรทัดที่ถูกปฏิเสธ"),
    "load.rejects_caption": ("The first {shown} of {count} rejected lines", "{shown} บรรทัดแรกจากที่ถูกปฏิเสธ {count}"),
    "load.no_rejects": ("No line was rejected.", "ไม่มีบรรทัดที่ถูกปฏิเสธ"),
    "load.rejects_file": ("Rejects file", "ไฟล์บรรทัดที่ถูกปฏิเสธ"),
    "load.line": ("Line", "บรรทัดที่"),
    "load.fields": ("Fields", "ฟิลด์"),
    "load.value": ("Text", "ข้อความ"),
    "load.reveal": ("Show", "แสดง"),
    "load.reveal_line": ("Show the text of line {line}; this is audited", "แสดงข้อความของบรรทัดที่ {line} (มีการบันทึก)"),
    "load.revealed": ("Line {line}", "บรรทัดที่ {line}"),
    "load.revealed_note": (
        "The line may contain personal data. The audit log records that you have seen it.",
        "อาจมีข้อมูลส่วนบุคคล มีการบันทึกไว้ว่าคุณได้ดูแล้ว",
    ),
    "load.not_found": (
        "This line is not in the rejects file on this machine. The file may be on the machine that ran the load.",
        "ไม่พบบรรทัดนี้ในไฟล์บนเครื่องนี้ ไฟล์อาจอยู่บนเครื่องที่นำเข้า",
    ),
    "load.fix": (
        "Values are hidden, because they may contain personal data. Fix the cause, then load the rejects file.",
        "ค่าถูกซ่อนไว้เพราะอาจมีข้อมูลส่วนบุคคล แก้ไขสาเหตุแล้วนำเข้าไฟล์บรรทัดที่ถูกปฏิเสธ",
    ),
    "load.fix_import": (
        (
            "Rows whose reason begins with import_ were rejected by counterfoil import. Fix the mapping or the export, "
            "then import it again. To see the values, use --rejects FILE."
        ),
        (
            "แถวที่สาเหตุขึ้นต้นด้วย import_ ถูกปฏิเสธโดย counterfoil import ให้แก้ไขแมปปิงหรือไฟล์ส่งออก แล้วนำเข้าอีกครั้ง "
            "หากต้องการดูค่า ให้ใช้ --rejects FILE"
        ),
    ),
    "load.fix_elsewhere": (
        (
            "Values are hidden, because they may contain personal data. Fix the cause, then load the rejects file "
            "{file}. This file is not in the store's folder of rejects."
        ),
        (
            "ค่าถูกซ่อนไว้เพราะอาจมีข้อมูลส่วนบุคคล แก้ไขสาเหตุแล้วนำเข้าไฟล์บรรทัดที่ถูกปฏิเสธ {file} "
            "ไฟล์นี้ไม่อยู่ในโฟลเดอร์ rejects ของที่เก็บข้อมูล"
        ),
    ),
    # --- store ---
    "store.title": ("Store", "ที่เก็บข้อมูล"),
    "store.well": ("Every check passed.", "ผ่านการตรวจสอบทั้งหมด"),
    "store.wrong": ("Checks that need attention: {count}", "การตรวจสอบที่ต้องดูแล: {count}"),
    "store.facts": ("Size and version", "ขนาดและรุ่น"),
    "store.checks": ("Checks", "การตรวจสอบ"),
    "store.address": ("Address", "ที่อยู่"),
    "store.size": ("Size", "ขนาด"),
    "store.schema": ("Schema", "สคีมา"),
    "store.software": ("Database", "ฐานข้อมูล"),
    "store.meter": ("Where requests are counted", "ที่ที่นับคำขอ"),
    "store.meter_term": ("(meter)", "(ตัวนับ, meter)"),
    "store.own_meter": ("in the store", "ในที่เก็บข้อมูล"),
    "store.free": ("Free disk space", "พื้นที่ดิสก์ว่าง"),
    "store.log": ("Write-ahead log of {name}", "บันทึก WAL ของ {name}"),
    "store.login": ("Database user", "ผู้ใช้ฐานข้อมูล"),
    "store.servers": ("Servers", "เซิร์ฟเวอร์"),
    "store.server": ("Server", "เซิร์ฟเวอร์"),
    "store.role": ("Role", "บทบาท"),
    "store.horizon": ("Horizon", "horizon"),
    "store.sessions": ("Signed-in operators", "ผู้ดูแลที่เข้าใช้อยู่"),
    "store.sessions_text": ("Open sessions of this console: {count}", "เซสชันที่เปิดอยู่ของคอนโซลนี้: {count}"),
    "store.sign_out_all": ("End all sessions", "สิ้นสุดทุกเซสชัน"),
    # --- audit ---
    "audit.title": ("Audit", "บันทึกการตรวจสอบ"),
    "audit.lead": (
        "Who changed keys or the store, from the command line and from this console. Entries cannot be changed.",
        "ใครเปลี่ยนคีย์หรือที่เก็บข้อมูล ทั้งจากบรรทัดคำสั่งและจากคอนโซลนี้ รายการเหล่านี้แก้ไขไม่ได้",
    ),
    "audit.caption": ("Audit entries, newest first", "รายการตรวจสอบ ใหม่สุดก่อน"),
    "audit.none": ("There are no entries.", "ไม่มีรายการ"),
    "audit.of_key": ("Only entries about key {key_id}.", "เฉพาะรายการของคีย์ {key_id}"),
    "audit.all": ("Show all", "แสดงทั้งหมด"),
    "audit.more": ("Show more", "แสดงเพิ่ม"),
    "audit.sentence": (
        "Latest change: {act} by {name} ({via}), {changes}.",
        "การเปลี่ยนล่าสุด: {act} โดย {name} ({via}) {changes}",
    ),
    "audit.sentence_without_changes": (
        "Latest change: {act} by {name} ({via}).",
        "การเปลี่ยนล่าสุด: {act} โดย {name} ({via})",
    ),
    "audit.act": ("Action", "การกระทำ"),
    "audit.actor": ("Who", "ใคร"),
    "audit.changes": ("What changed", "สิ่งที่เปลี่ยน"),
    "act.key_issued": ("key issued", "ออกคีย์"),
    "act.key_changed": ("key changed", "แก้ไขคีย์"),
    "act.key_rotated": ("key rotated", "หมุนเวียนคีย์"),
    "act.revocation_scheduled": ("revocation scheduled", "กำหนดเวลาเพิกถอน"),
    "act.key_revoked": ("key revoked", "เพิกถอนคีย์"),
    "act.revocation_restored": ("revocation restored", "คืนการเพิกถอน"),
    "act.store_created": ("store created", "สร้างที่เก็บข้อมูล"),
    "act.file_recreated": ("file recreated", "สร้างไฟล์ใหม่"),
    "act.store_restored": ("store restored", "กู้คืนที่เก็บข้อมูล"),
    "act.store_moved": ("store moved", "ย้ายที่เก็บข้อมูล"),
    "act.records_pruned": ("records pruned", "ลบระเบียนเก่า"),
    "act.schema_migrated": ("schema migrated", "ปรับสคีมา"),
    "act.tables_distributed": ("tables distributed", "กระจายตาราง"),
    "act.roles_granted": ("roles granted", "ให้สิทธิ์บทบาท"),
    "act.console_signed_in": ("signed in", "เข้าสู่ระบบ"),
    "act.reject_revealed": ("rejected line shown", "แสดงบรรทัดที่ถูกปฏิเสธ"),
    # --- requests and personal data ---
    "requests.title": ("Requests", "คำขอ"),
    "requests.search_label": ("Search requests", "ค้นหาคำขอ"),
    "requests.request_id": ("Request ID", "รหัสคำขอ"),
    "requests.request_id_hint": (
        "From the X-Request-Id header of a response. Request records are kept for 90 days.",
        "จากส่วนหัว X-Request-Id ของการตอบกลับ คำขอเก็บไว้ 90 วัน",
    ),
    "requests.more": ("More conditions", "เงื่อนไขเพิ่มเติม"),
    "requests.any": ("any", "ทั้งหมด"),
    "requests.status_pattern": ("An HTTP status has three digits, such as 404.", "สถานะ HTTP มีตัวเลขสามหลัก เช่น 404"),
    "requests.slower": ("Slower than (ms)", "ช้ากว่า (มิลลิวินาที)"),
    "requests.since": ("From (Thailand time)", "ตั้งแต่ (เวลาประเทศไทย)"),
    "requests.until": ("Until (Thailand time)", "ถึง (เวลาประเทศไทย)"),
    "requests.search": ("Search", "ค้นหา"),
    "requests.reset": ("Show all", "แสดงทั้งหมด"),
    "requests.ignored": (
        "These conditions are not valid and were ignored: {names}.",
        "เงื่อนไขเหล่านี้ไม่ถูกต้องและไม่ได้ใช้: {names}",
    ),
    "requests.caption": ("Requests, newest first", "คำขอ ใหม่สุดก่อน"),
    "requests.none": ("No request matches.", "ไม่พบคำขอที่ตรงกัน"),
    "requests.more_to_search": (
        "No match among the latest requests. Continue the search with older requests.",
        "ไม่พบในคำขอล่าสุด ยังมีคำขอเก่ากว่าให้ค้นหา",
    ),
    "requests.older": ("Older", "เก่ากว่า"),
    "requests.newest": ("Newest", "ใหม่สุด"),
    "requests.follow": ("Follow live", "ติดตามสด"),
    "requests.stop": ("Stop following", "หยุดติดตาม"),
    "requests.following": ("Following. New requests appear at the top.", "กำลังติดตาม คำขอใหม่จะอยู่บนสุด"),
    "requests.lost": (
        "The console does not respond. Trying again every 2 seconds.",
        "คอนโซลไม่ตอบสนอง กำลังลองใหม่ทุก 2 วินาที",
    ),
    "requests.parameters": ("Names of the parameters", "ชื่อพารามิเตอร์"),
    "requests.rows": ("Rows", "จำนวนแถว"),
    "requests.more_pages": ("more pages follow", "ยังมีหน้าถัดไป"),
    "requests.returned": ("Request {request_id}", "คำขอ {request_id}"),
    "requests.disclosed_one": ("1 member of {base}", "ของสมาชิก 1 คนใน {base}"),
    "requests.disclosed": ("{count} members of {base}", "ของสมาชิก {count} คนใน {base}"),
    "requests.personal_short": ("personal data", "ข้อมูลส่วนบุคคล"),
    "personal.title": ("Personal data", "ข้อมูลส่วนบุคคล"),
    "personal.lead": (
        "Responses of the last {days} days that contained members' telephone numbers or email addresses.",
        "การตอบกลับใน {days} วันที่ผ่านมาที่มีหมายเลขโทรศัพท์หรืออีเมลของสมาชิก",
    ),
    "personal.by_key": ("Who received personal data", "ใครได้รับ"),
    "personal.by_key_caption": ("Disclosures by key, last {days} days", "การเปิดเผยตามคีย์ {days} วันที่ผ่านมา"),
    "personal.partial": ("Only the latest {count} disclosures are counted here.", "นับเฉพาะการเปิดเผย {count} ครั้งล่าสุด"),
    "personal.list": ("Each disclosure", "การเปิดเผยแต่ละครั้ง"),
    "personal.caption": ("Disclosures, newest first", "การเปิดเผย ใหม่สุดก่อน"),
    "personal.members": ("Members in the response", "สมาชิกในการตอบกลับ"),
    "personal.members_sum": ("Members in all responses", "สมาชิกในการตอบกลับทั้งหมด"),
    "personal.counted": (
        "A member counts once for each response that contained the member, so sums can exceed the number of members.",
        "สมาชิกหนึ่งคนนับหนึ่งครั้งต่อการตอบกลับแต่ละครั้งที่มีสมาชิกคนนั้น ผลรวมจึงอาจมากกว่าจำนวนสมาชิก",
    ),
    "personal.none": ("No personal data was returned.", "ไม่มีการส่งข้อมูลส่วนบุคคล"),
    "personal.all_of_key": ("All disclosures to this key", "การเปิดเผยทั้งหมดให้คีย์นี้"),
}
