"""The reasons why a store cannot be used, as the back ends report them.

If a reason quotes a message of the database or the meter, common messages are translated, and others stay in English.
"""

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
    "store_problem.full": (
        "{name}.sqlite3 cannot be opened, because the disk is full ({reason}): free up disk space.",
        "เปิด {name}.sqlite3 ไม่ได้ เพราะดิสก์เต็ม ({reason}): เพิ่มพื้นที่ว่างบนดิสก์",
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
    "store_problem.unfinished": (
        (
            "the store in {folder} is incomplete, because it could not be created completely: "
            "run `counterfoil init` to complete it."
        ),
        "ที่เก็บข้อมูลใน {folder} ไม่ครบ เพราะสร้างไม่สำเร็จ: รัน `counterfoil init` เพื่อสร้างให้ครบ",
    ),
    "store_problem.no_store": (
        (
            "there is no store at {folder}. Check --store or COUNTERFOIL_STORE; to create a new store there, run "
            "`counterfoil init`."
        ),
        ("ไม่มีที่เก็บข้อมูลที่ {folder} ตรวจสอบ --store หรือ COUNTERFOIL_STORE หากต้องการสร้างใหม่ ให้รัน `counterfoil init`"),
    ),
    "store_problem.cannot_open": ("cannot open {file}: {reason}", "เปิด {file} ไม่ได้: {reason}"),
    "store_problem.no_replica": (
        "PostgreSQL: no replica can be read",
        "PostgreSQL: อ่านจากเซิร์ฟเวอร์สำรอง (replica) ใดไม่ได้",
    ),
    "store_problem.no_primary": (
        "PostgreSQL: no server accepts writes",
        "PostgreSQL: ไม่มีเซิร์ฟเวอร์ที่เขียนได้",
    ),
    "store_problem.moved": ("this store was moved to {address}", "ที่เก็บข้อมูลนี้ถูกย้ายไปที่ {address}"),
    "store_problem.sqlite": ("SQLite: {reason}", "SQLite แจ้งว่า: {reason}"),
    "store_problem.keys_unreadable": ("the keys cannot be read: {kind}: {reason}", "อ่านคีย์ไม่ได้: {kind}: {reason}"),
    "store_problem.keys_slow": ("the keys could not be read within {seconds} s", "อ่านคีย์ไม่ได้ภายใน {seconds} วินาที"),
    "store_problem.postgres": ("PostgreSQL: {reason}", "PostgreSQL แจ้งว่า: {reason}"),
    "store_problem.no_answer": (
        "PostgreSQL: no answer within {seconds} s",
        "PostgreSQL: ไม่มีคำตอบภายใน {seconds} วินาที",
    ),
    "store_problem.behind": (
        "PostgreSQL: no readable server has reached the horizon that this request needs",
        "PostgreSQL: ไม่มีเซิร์ฟเวอร์ที่อ่านได้ถึง horizon ที่คำขอนี้ต้องใช้",
    ),
    "store_problem.pool": (
        "PostgreSQL: none of {count} connections became free within {time} ms",
        "PostgreSQL: การเชื่อมต่อทั้ง {count} ไม่ว่างภายใน {time} มิลลิวินาที",
    ),
    "store_problem.ports": (
        "PostgreSQL: the address names {servers} servers but {ports} ports",
        "PostgreSQL: ที่อยู่มีเซิร์ฟเวอร์ {servers} เครื่อง แต่มีพอร์ต {ports} พอร์ต",
    ),
    "store_problem.no_horizon": ("PostgreSQL: the store has no horizon", "PostgreSQL: ที่เก็บข้อมูลไม่มี horizon"),
    "store_problem.unmigrated": (
        "the database has schema {found}, but this version needs {wanted}: run `counterfoil migrate`.",
        "ฐานข้อมูลมีสคีมา {found} แต่รุ่นนี้ต้องใช้ {wanted}: รัน `counterfoil migrate`",
    ),
    "store_problem.upgraded": (
        (
            "the database has schema {found}, but this version supports only schemas up to {wanted}: it was upgraded "
            "by a newer version of Counterfoil. Use that version, or restore a backup."
        ),
        ("ฐานข้อมูลมีสคีมา {found} แต่รุ่นนี้รองรับถึง {wanted}: ปรับรุ่นโดย Counterfoil รุ่นใหม่กว่า ให้ใช้รุ่นนั้น หรือกู้คืนจากสำเนาสำรอง"),
    ),
    "store_problem.unfinished_copy": (
        "a copy into this store has not been finished: run `counterfoil copy` with --cut-over to complete it.",
        "การคัดลอกมายังที่เก็บข้อมูลนี้ยังไม่เสร็จ: รัน `counterfoil copy` พร้อม --cut-over เพื่อทำให้เสร็จ",
    ),
    "store_problem.citus_session": (
        (
            "Citus: a load was interrupted, and a session that may still be writing its rows does not end, or a "
            "node does not respond. The horizon does not advance until all sessions of that load have ended. "
            "If a node is permanently lost, remove it from the cluster."
        ),
        (
            "Citus: การนำเข้าหยุดกลางคัน และเซสชันที่อาจยังเขียนข้อมูลอยู่ไม่จบ หรือมีโหนดที่ไม่ตอบ "
            "horizon จะไม่เดินหน้าจนกว่าทุกเซสชันของการนำเข้านั้นจะจบ ถ้าโหนดสูญหายถาวร ให้นำออกจากคลัสเตอร์"
        ),
    ),
    "store_problem.layout_changed": (
        "`counterfoil migrate --distribute` has changed the tables since this program started. Restart the program.",
        "`counterfoil migrate --distribute` เปลี่ยนตารางหลังจากโปรแกรมนี้เริ่มทำงาน ให้เริ่มโปรแกรมนี้ใหม่",
    ),
    "store_problem.meter": ("meter: {reason}", "ตัวนับคำขอแจ้งว่า: {reason}"),
    "store_problem.meter_day": (
        "meter: other data was missing each time the admission was repeated",
        "ตัวนับคำขอ: ยังขาดข้อมูลอื่นเมื่อตรวจคำขออีกครั้ง",
    ),
    "store_problem.not_stored": (
        "{reason}. Not stored: {count} daily counts",
        "{reason} ยังไม่ได้บันทึกยอดรายวัน {count} รายการ",
    ),
    "store_problem.bridge_error": ("bridge: {reason}", "บริดจ์แจ้งว่า: {reason}"),
    "store_problem.bridge": (
        "bridge: cursors that were handed out may have been lost",
        "บริดจ์: เคอร์เซอร์ที่ส่งออกไปแล้วอาจสูญหาย",
    ),
    # --- frequent messages of the database and the meter ---
    "store_reason.truncated": ("it was truncated", "ไฟล์ถูกตัดให้สั้นลง"),
    "store_reason.malformed": ("database disk image is malformed", "เนื้อหาของไฟล์เสียหาย"),
    "store_reason.not_database": ("file is not a database", "ไฟล์นี้ไม่ใช่ฐานข้อมูล"),
    "store_reason.locked": ("database is locked", "ไฟล์ถูกล็อกโดยโปรเซสอื่น"),
    "store_reason.full": ("database or disk is full", "ดิสก์เต็ม"),
    "store_reason.read_only": ("attempt to write a readonly database", "ไฟล์เขียนไม่ได้"),
    "store_reason.cannot_open": ("unable to open database file", "เปิดไฟล์ไม่ได้"),
    "store_reason.disk_error": ("disk I/O error", "อ่านหรือเขียนดิสก์ไม่ได้"),
    "store_reason.connecting": (
        'connection failed: connection to server at "{host}", port {port} failed: {reason}',
        'เชื่อมต่อกับเซิร์ฟเวอร์ "{host}" พอร์ต {port} ไม่ได้: {reason}',
    ),
    "store_reason.refused": ("Connection refused", "เซิร์ฟเวอร์ปฏิเสธการเชื่อมต่อ"),
    "store_reason.connect_timeout": ("connection timeout expired", "เชื่อมต่อไม่ได้ภายในเวลาที่กำหนด"),
    "store_reason.starting": ("the database system is starting up", "เซิร์ฟเวอร์กำลังเริ่มทำงาน"),
    "store_reason.stopping": ("the database system is shutting down", "เซิร์ฟเวอร์กำลังหยุดทำงาน"),
    "store_reason.terminated": (
        "terminating connection due to administrator command",
        "ผู้ดูแลระบบยุติการเชื่อมต่อ",
    ),
    "store_reason.closed": (
        "server closed the connection unexpectedly",
        "เซิร์ฟเวอร์ปิดการเชื่อมต่อโดยไม่คาดคิด",
    ),
    "store_reason.too_many": ("sorry, too many clients already", "มีการเชื่อมต่อกับเซิร์ฟเวอร์มากเกินไป"),
    "store_reason.password": (
        'password authentication failed for user "{user}"',
        'รหัสผ่านของผู้ใช้ "{user}" ไม่ถูกต้อง',
    ),
    "store_reason.no_database": ('database "{name}" does not exist', 'ไม่มีฐานข้อมูล "{name}"'),
    "store_reason.no_role": ('role "{name}" does not exist', 'ไม่มีบทบาท "{name}"'),
    "store_reason.no_permission": ("permission denied for {kind} {name}", "ไม่มีสิทธิ์ใช้ {kind} {name}"),
    "store_reason.no_table_permission": ("permission denied for table {name}", "ไม่มีสิทธิ์ใช้ตาราง {name}"),
    "store_reason.replica": (
        "cannot execute {statement} in a read-only transaction",
        "เซิร์ฟเวอร์นี้อ่านได้อย่างเดียว จึงทำคำสั่ง {statement} ไม่ได้",
    ),
    "store_reason.lock_timeout": (
        "canceling statement due to lock timeout",
        "ยกเลิกคำสั่ง เพราะรอการล็อกนานเกินไป",
    ),
    "store_reason.statement_timeout": (
        "canceling statement due to statement timeout",
        "ยกเลิกคำสั่ง เพราะใช้เวลานานเกินไป",
    ),
    "store_reason.no_space": (
        "could not extend file: No space left on device",
        "ดิสก์ของเซิร์ฟเวอร์เต็ม",
    ),
}
