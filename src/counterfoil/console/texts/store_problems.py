"""The most frequent reasons why a store cannot be read, as the back ends report them. Others are shown in English."""

from typing import Final

TEXTS: Final[dict[str, tuple[str, str]]] = {
    "store_problem.missing_file": (
        (
            "{name}.sqlite3 is missing or empty: put the file back or restore it from a backup. If it is lost, run "
            "`counterfoil init --recreate {again}` to continue with an empty one."
        ),
        (
            "{name}.sqlite3 หายไปหรือว่างเปล่า: นำไฟล์กลับมาหรือกู้คืนจากสำเนาสำรอง ถ้าไฟล์สูญหาย ให้รัน "
            "`counterfoil init --recreate {again}` เพื่อเริ่มด้วยไฟล์เปล่า"
        ),
    ),
    "store_problem.damaged": (
        "{name}.sqlite3 is damaged ({reason}): stop the service and restore the file from a backup.",
        "{name}.sqlite3 เสียหาย ({reason}): หยุดบริการและกู้คืนไฟล์จากสำเนาสำรอง",
    ),
    "store_problem.mixed": (
        "{files} belong to different stores: restore files that belong to the same store.",
        "{files} เป็นของที่เก็บข้อมูลต่างกัน: กู้คืนไฟล์ที่เป็นของที่เก็บข้อมูลเดียวกัน",
    ),
    "store_problem.other_keys": (
        "keys.sqlite3 belongs to another store: restore the file of this store.",
        "keys.sqlite3 เป็นของที่เก็บข้อมูลอื่น: กู้คืนไฟล์ของที่เก็บข้อมูลนี้",
    ),
    "store_problem.newer_schema": (
        (
            "the {name} database has schema {found}, but this version supports only schemas up to {wanted}: it was "
            "written by a newer version of Counterfoil. Use that version, or restore a backup."
        ),
        (
            "ฐานข้อมูล {name} มีสคีมา {found} แต่รุ่นนี้รองรับถึง {wanted}: เขียนโดย Counterfoil รุ่นใหม่กว่า "
            "ให้ใช้รุ่นนั้น หรือกู้คืนจากสำเนาสำรอง"
        ),
    ),
    "store_problem.older_schema": (
        (
            "the {name} database has schema {found}, but this version needs {wanted}: stop the processes of the older "
            "version, then run `counterfoil serve` or `counterfoil load` to upgrade it."
        ),
        (
            "ฐานข้อมูล {name} มีสคีมา {found} แต่รุ่นนี้ต้องใช้ {wanted}: หยุดโปรเซสของรุ่นเก่า แล้วรัน "
            "`counterfoil serve` หรือ `counterfoil load` เพื่อปรับรุ่น"
        ),
    ),
    "store_problem.no_store": (
        (
            "there is no store at {folder}. Check --store or COUNTERFOIL_STORE; to create a new store there, run "
            "`counterfoil init`."
        ),
        ("ไม่มีที่เก็บข้อมูลที่ {folder} ตรวจสอบ --store หรือ COUNTERFOIL_STORE หากต้องการสร้างใหม่ ให้รัน `counterfoil init`"),
    ),
    "store_problem.cannot_open": ("cannot open {file}: {reason}", "เปิด {file} ไม่ได้: {reason}"),
    "store_problem.no_server": ("PostgreSQL: no server can be read", "PostgreSQL: อ่านจากเซิร์ฟเวอร์ใดไม่ได้"),
    "store_problem.no_primary": (
        "PostgreSQL: no server accepts writes",
        "PostgreSQL: ไม่มีเซิร์ฟเวอร์ที่เขียนได้",
    ),
}
