"""The text of the Requests and Personal data pages."""

from typing import Final

TEXTS: Final[dict[str, tuple[str, str]]] = {
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
