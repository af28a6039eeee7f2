"""The findings of `status` and `doctor` with their advice.

The English texts are those of `counterfoil/checks/`, with placeholders for the values. A test fails if a finding or its
advice has no text here, or if a text here does not belong to any finding.
"""

from typing import Final

TEXTS: Final[dict[str, tuple[str, str]]] = {
    # --- names of checks ---
    "check.settings": ("settings", "การตั้งค่า"),
    "check.service": ("service", "บริการ"),
    "check.store": ("store", "ที่เก็บข้อมูล"),
    "check.books": ("books", "ข้อมูลร้านและบิล"),
    "check.keys": ("keys", "คีย์"),
    "check.usage": ("usage", "การใช้งาน"),
    "check.writing": ("writing", "การเขียน"),
    "check.secret": ("secret", "ความลับ"),
    "check.clock": ("clock", "นาฬิกา"),
    "check.disk": ("disk", "ดิสก์"),
    "check.horizon": ("horizon", "เวลา horizon"),
    "check.load": ("load", "การนำเข้า"),
    "check.intake": ("intake", "ข้อมูลที่ส่งมา"),
    "check.folders": ("folders", "โฟลเดอร์"),
    "check.shops": ("shops", "ร้าน"),
    "check.port": ("port", "พอร์ต"),
    "check.admin": ("admin", "พอร์ตผู้ดูแล"),
    "check.server": ("server", "เซิร์ฟเวอร์"),
    "check.primary": ("primary", "เซิร์ฟเวอร์หลัก"),
    "check.rights": ("rights", "สิทธิ์"),
    "check.meter": ("meter", "ตัวนับ"),
    "check.version": ("version", "รุ่น"),
    # --- the service ---
    "message.service_ready": ("The service is ready at {address}.", "บริการพร้อมใช้งานที่ {address}"),
    "message.service_not_ready": (
        "The service is running but not ready: {reasons}.",
        "บริการทำงานอยู่แต่ยังไม่พร้อม: {reasons}",
    ),
    "message.service_silent": (
        "No service responds at {address} ({reason}).",
        "ไม่มีบริการตอบที่ {address} ({reason})",
    ),
    "message.other_store": (
        "The service at {address} serves another store.",
        "บริการที่ {address} ให้บริการที่เก็บข้อมูลอื่น",
    ),
    "message.own_admin_port": (
        "Check --store and admin_port. Each service on a machine needs its own admin_port.",
        "ตรวจสอบ --store และ admin_port แต่ละบริการในเครื่องเดียวกันต้องมี admin_port ของตนเอง",
    ),
    "message.serve_or_admin": (
        "Run `counterfoil serve`, or check admin_host and admin_port.",
        "รัน `counterfoil serve` หรือตรวจสอบ admin_host และ admin_port",
    ),
    "message.serve_or_log": (
        "Run `counterfoil serve`, or check its log.",
        "รัน `counterfoil serve` หรือตรวจสอบบันทึกของบริการ",
    ),
    "message.check_log": ("Check its log.", "ตรวจสอบบันทึกของบริการ"),
    "message.horizon_moving": (
        "The horizon is moving. The admin listener is off, so nothing else about the service was checked.",
        "horizon กำลังเดิน พอร์ตผู้ดูแลปิดอยู่ จึงไม่ได้ตรวจสอบอย่างอื่น",
    ),
    "message.horizon_still": ("The horizon is not moving.", "horizon หยุดเดิน"),
    "message.service_undecided": (
        "The horizon is ahead of the clock, so it does not show whether the service is running.",
        "horizon เร็วกว่านาฬิกา จึงบอกไม่ได้ว่าบริการทำงานอยู่หรือไม่",
    ),
    "message.nothing_served": (
        "Nothing has been loaded into this store or served from it yet.",
        "ยังไม่มีการนำเข้าหรือให้บริการจากที่เก็บข้อมูลนี้",
    ),
    "message.service_running": ("A service is running on this store.", "มีบริการทำงานบนที่เก็บข้อมูลนี้"),
    "message.nothing_listens": (
        (
            "Nothing is listening on the port. The horizon has just moved: a load has written to the store, or a "
            "service uses another port."
        ),
        "ไม่มีโปรแกรมใดรับที่พอร์ตนี้ แต่ horizon เพิ่งเดิน: การนำเข้าเพิ่งเขียนข้อมูล หรือบริการใช้พอร์ตอื่น",
    ),
    "message.start_service": (
        "Run `counterfoil serve` to start the service.",
        "รัน `counterfoil serve` เพื่อเริ่มบริการ",
    ),
    "message.service_unknown": (
        (
            "The clock is behind the horizon by {span}, so it is unknown whether a service is running; {something} is "
            "listening on the port."
        ),
        "นาฬิกาช้ากว่า horizon อยู่ {span} จึงไม่ทราบว่ามีบริการทำงานหรือไม่ ที่พอร์ตนี้: {something}",
    ),
    "message.fix_clock": (
        "Fix the clock first. A running service answers /ready on its admin listener.",
        "แก้นาฬิกาก่อน บริการที่ทำงานอยู่จะตอบ /ready ที่พอร์ตผู้ดูแล",
    ),
    "message.horizon_stuck": (
        "Something is listening on the port, but the horizon has not moved for {span}.",
        "มีโปรแกรมรับที่พอร์ตนี้ แต่ horizon ไม่เดินมา {span}",
    ),
    "message.server_time_stuck": (
        "If it is this store's service, `serverTime` is stuck: check its log and /ready.",
        "ถ้าเป็นบริการของที่เก็บข้อมูลนี้ แสดงว่า `serverTime` ค้าง: ตรวจสอบบันทึกและ /ready",
    ),
    "message.no_service": (
        "No service is running; the horizon last moved {span} ago.",
        "ไม่มีบริการทำงานอยู่ horizon เดินล่าสุดเมื่อ {span}ที่แล้ว",
    ),
    "message.horizon_old": (
        "{time}, {span} old: `serverTime` is not advancing.",
        "{time} เก่า {span}: `serverTime` ไม่เดินหน้า",
    ),
    "message.horizon_age": ("{time}, {seconds} s old.", "{time} เก่า {seconds} วินาที"),
    "message.horizon_ahead": ("{time} is {span} ahead of the clock.", "{time} เร็วกว่านาฬิกา {span}"),
    "message.check_ntp": ("Check the clock against NTP.", "เทียบนาฬิกากับ NTP"),
    "message.versions": (
        "Counterfoil {version} (API {api}), Python {python}.",
        "Counterfoil รุ่น {version} (API {api}), Python {python}",
    ),
    # --- the store ---
    "message.run_doctor_details": ("Run `counterfoil doctor` for details.", "รัน `counterfoil doctor` เพื่อดูรายละเอียด"),
    "message.run_doctor": ("Run `counterfoil doctor`.", "รัน `counterfoil doctor` เพื่อหาสาเหตุ"),
    "message.store_well": (
        "{store}, {size}, schema {schema}, no problems.",
        "{store} ขนาด {size} สคีมา {schema} ไม่มีปัญหา",
    ),
    "message.store_missing": ("There is no store at {store} yet.", "ยังไม่มีที่เก็บข้อมูลที่ {store}"),
    "message.create_store": (
        "Run `counterfoil init` to create it. If it should already exist, check --store or COUNTERFOIL_STORE.",
        "รัน `counterfoil init` เพื่อสร้าง ถ้าควรมีอยู่แล้ว ให้ตรวจสอบ --store หรือ COUNTERFOIL_STORE",
    ),
    "message.store_unfinished": (
        "The store in {store} is incomplete, because it could not be created completely.",
        "ที่เก็บข้อมูลใน {store} ไม่ครบ เพราะสร้างไม่สำเร็จ",
    ),
    "message.complete_store": (
        "If the disk is full, free up disk space. Then run `counterfoil init`.",
        "ถ้าดิสก์เต็ม ให้เพิ่มพื้นที่ว่างบนดิสก์ แล้วรัน `counterfoil init`",
    ),
    "message.store_is_file": (
        "{store} is a file, but a store must be a folder.",
        "{store} เป็นไฟล์ แต่ที่เก็บข้อมูลต้องเป็นโฟลเดอร์",
    ),
    "message.move_file": (
        "Check --store or COUNTERFOIL_STORE, or move the file.",
        "ตรวจสอบ --store หรือ COUNTERFOIL_STORE หรือย้ายไฟล์นั้น",
    ),
    "message.store_open": (
        "{store} is accessible to other users of this machine (mode {mode}).",
        "ผู้ใช้อื่นของเครื่องนี้เข้าถึง {store} ได้ (โหมด {mode})",
    ),
    "message.chmod_folder": ("Run `chmod 700 {store}`.", "รัน `chmod 700 {store}` เพื่อปิดสิทธิ์"),
    "message.store_private": ("{store} exists and is private.", "{store} มีอยู่และเป็นส่วนตัว"),
    "message.moved_keep_secret": (
        (
            "Set COUNTERFOIL_STORE to the new store. Do not delete this folder yet: it contains the deployment secret "
            "({files}), which the new store needs. Move the secret to a safe place, set COUNTERFOIL_SECRET_FILE to its "
            "path, and run `counterfoil doctor` on the new store. Then delete this folder."
        ),
        (
            "ตั้ง COUNTERFOIL_STORE เป็นที่เก็บข้อมูลใหม่ อย่าเพิ่งลบโฟลเดอร์นี้: มีความลับของระบบ ({files}) ที่ที่เก็บข้อมูลใหม่ต้องใช้ "
            "ย้ายความลับไปไว้ในที่ปลอดภัย ตั้ง COUNTERFOIL_SECRET_FILE เป็นที่อยู่ของไฟล์ "
            "และรัน `counterfoil doctor` กับที่เก็บข้อมูลใหม่ แล้วจึงลบโฟลเดอร์นี้"
        ),
    ),
    "message.moved": (
        "Set COUNTERFOIL_STORE to the new store. Delete this folder once you have verified the new store.",
        "ตั้ง COUNTERFOIL_STORE เป็นที่เก็บข้อมูลใหม่ และลบโฟลเดอร์นี้เมื่อตรวจสอบที่เก็บข้อมูลใหม่แล้ว",
    ),
    "message.database_missing": (
        "The file does not exist yet. The next load creates it.",
        "ยังไม่มีไฟล์นี้ การนำเข้าครั้งต่อไปจะสร้างไฟล์",
    ),
    "message.check_owner": (
        "Check the file's owner and the disk. If the file is damaged, restore a backup.",
        "ตรวจสอบเจ้าของไฟล์และดิสก์ ถ้าไฟล์เสียหาย ให้กู้คืนจากสำเนาสำรอง",
    ),
    "message.database_open": (
        "Other users of this machine can open this database.",
        "ผู้ใช้อื่นของเครื่องนี้เปิดฐานข้อมูลนี้ได้",
    ),
    "message.chmod_files": ("Run `chmod 600 {files}`.", "รัน `chmod 600 {files}` เพื่อปิดสิทธิ์"),
    "message.database_well": (
        "The file is readable and private, and its schema is up to date.",
        "ไฟล์อ่านได้ เป็นส่วนตัว และสคีมาเป็นปัจจุบัน",
    ),
    "message.cannot_write": ("Cannot write to {store}: {reason}.", "เขียนไปยัง {store} ไม่ได้: {reason}"),
    "message.free_or_own": (
        "Free up some disk space, or make the user that runs Counterfoil the owner of the folder.",
        "เพิ่มพื้นที่ว่างในดิสก์ หรือให้ผู้ใช้ที่รัน Counterfoil เป็นเจ้าของโฟลเดอร์",
    ),
    "message.writable": ("The folder is writable.", "เขียนในโฟลเดอร์ได้"),
    "message.disk_free": ("{size} GiB free under {folder}.", "เหลือพื้นที่ {size} GiB ใน {folder}"),
    "message.disk_critical": (
        "Free up disk space now: on a full disk, loads fail and every request is refused.",
        "เพิ่มพื้นที่ว่างทันที: ถ้าดิสก์เต็ม การนำเข้าจะล้มเหลวและทุกคำขอจะถูกปฏิเสธ",
    ),
    "message.disk_low": ("Free up some disk space soon.", "ควรเพิ่มพื้นที่ว่างในดิสก์เร็ว ๆ นี้"),
    # --- the secret ---
    "message.secret_short": ("The secret is shorter than {bytes} bytes.", "ความลับสั้นกว่า {bytes} ไบต์"),
    "message.set_secret": (
        "If the store already has data, restore the original secret. Otherwise, choose a longer one.",
        "หากที่เก็บข้อมูลมีข้อมูลอยู่แล้ว ให้กู้คืนความลับเดิม มิฉะนั้นให้ตั้งความลับที่ยาวกว่านี้",
    ),
    "message.secret_missing": (
        "{file} is missing, but the store was built with a secret.",
        "ไม่มี {file} แต่ที่เก็บข้อมูลสร้างด้วยความลับ",
    ),
    "message.restore_secret": (
        "Restore the file, or set COUNTERFOIL_SECRET. Without the secret, member tokens cannot be reproduced.",
        "กู้คืนไฟล์ หรือตั้ง COUNTERFOIL_SECRET หากไม่มีความลับ จะสร้างโทเค็นของสมาชิกเดิมไม่ได้",
    ),
    "message.secret_later": (
        "{file} does not exist yet. The next load creates it.",
        "ยังไม่มี {file} การนำเข้าครั้งต่อไปจะสร้างไฟล์",
    ),
    "message.cannot_read": ("Cannot read {file}: {reason}.", "อ่าน {file} ไม่ได้: {reason}"),
    "message.check_mode": ("Check its owner and mode.", "ตรวจสอบเจ้าของและโหมดของไฟล์"),
    "message.secret_file_short": ("{file} is shorter than {bytes} bytes.", "{file} สั้นกว่า {bytes} ไบต์"),
    "message.restore_file": ("Restore the file.", "กู้คืนไฟล์"),
    "message.secret_open": (
        "{file} is accessible to other users (mode {mode}).",
        "ผู้ใช้อื่นเข้าถึง {file} ได้ (โหมด {mode})",
    ),
    "message.secret_private": (
        "{file} exists and is private. Keep a copy in a safe place.",
        "{file} มีอยู่และเป็นส่วนตัว ควรเก็บสำเนาไว้ในที่ปลอดภัย",
    ),
    "message.secret_matches": (
        "The secret is the one that this store was built with.",
        "ความลับตรงกับที่ใช้สร้างที่เก็บข้อมูลนี้",
    ),
    "message.secret_differs": (
        "The secret is not the one that this store was built with.",
        "ความลับไม่ตรงกับที่ใช้สร้างที่เก็บข้อมูลนี้",
    ),
    "message.correct_secret": (
        "Set the correct secret (COUNTERFOIL_SECRET or secret_file). With this one, every member token would change.",
        "ตั้งความลับที่ถูกต้อง (COUNTERFOIL_SECRET หรือ secret_file) หากใช้ความลับนี้ โทเค็นของสมาชิกทุกคนจะเปลี่ยน",
    ),
    # --- clock and ports ---
    "message.clock": ("The clock says {time}.", "นาฬิกาบอกเวลา {time}"),
    "message.clock_past": (
        "The clock says {time}, which is years in the past.",
        "นาฬิกาบอกเวลา {time} ซึ่งเป็นอดีตหลายปี",
    ),
    "message.set_clock": ("Set the clock, and use NTP to keep it correct.", "ตั้งนาฬิกา และใช้ NTP เพื่อให้ตรงอยู่เสมอ"),
    "message.clock_behind": (
        (
            "The clock says {time}, but the horizon is {horizon}: the clock was set back by {span}, or it was ahead "
            "earlier."
        ),
        "นาฬิกาบอกเวลา {time} แต่ horizon คือ {horizon}: นาฬิกาถูกตั้งถอยหลัง {span} หรือเคยเดินเร็วเกินไป",
    ),
    "message.clock_ntp": (
        "Check it against NTP. No data is lost: until the clock catches up, new stamps are just above the horizon.",
        "เทียบนาฬิกากับ NTP ข้อมูลไม่หาย: จนกว่านาฬิกาจะตามทัน เวลาของการเปลี่ยนแปลงใหม่จะอยู่หลัง horizon เล็กน้อย",
    ),
    "message.port_free": ("{address} is free.", "{address} ว่าง"),
    "message.port_used": (
        "{address} is in use, by this service or by another program.",
        "{address} ถูกใช้อยู่ โดยบริการนี้หรือโปรแกรมอื่น",
    ),
    "message.port_expected": (
        "{address} is in use, as expected while the service is running.",
        "{address} ถูกใช้อยู่ตามปกติขณะที่บริการทำงาน",
    ),
    "message.port_taken": ("{address} is in use by another program.", "โปรแกรมอื่นใช้ {address} อยู่"),
    "message.stop_program": ("Stop that program, or change {setting}.", "หยุดโปรแกรมนั้น หรือเปลี่ยน {setting}"),
    # --- loads and deliveries ---
    "message.nothing_loaded": ("Nothing has been loaded yet.", "ยังไม่มีการนำเข้า"),
    "message.run_load": ("Run `counterfoil load`.", "รัน `counterfoil load` เพื่อนำเข้า"),
    "message.load_rejected": ("The latest load rejected lines ({about}).", "การนำเข้าล่าสุดปฏิเสธบางบรรทัด ({about})"),
    "message.load_rejects": (
        "Read the reasons in its output, fix the cause, then load its rejects file or repeat the import.",
        "ดูสาเหตุ แก้ไข แล้วนำเข้าไฟล์บรรทัดที่ถูกปฏิเสธหรือทำการ import อีกครั้ง",
    ),
    "message.load_finished_ago": ("Finished {span} ago: {about}.", "เสร็จเมื่อ {span}ที่แล้ว: {about}"),
    "message.load_finished": ("The latest load finished ({lines}).", "การนำเข้าล่าสุดเสร็จแล้ว ({lines})"),
    "message.load_unknown": (
        "The latest load has not finished ({lines}). It may be running; the clock is too far behind to tell.",
        "การนำเข้าล่าสุดยังไม่เสร็จ ({lines}) อาจกำลังทำงานอยู่ แต่นาฬิกาช้าเกินกว่าจะบอกได้",
    ),
    "message.load_again": (
        "Run the same `counterfoil load` again; records that are already loaded are skipped.",
        "รัน `counterfoil load` คำสั่งเดิมอีกครั้ง ระเบียนที่นำเข้าแล้วจะถูกข้าม",
    ),
    "message.load_again_after": (
        (
            "Correct the cause that its error message named. Then run the same `counterfoil load` again; records that "
            "are already loaded are skipped."
        ),
        "แก้ไขสาเหตุที่ข้อความแสดงข้อผิดพลาดระบุไว้ แล้วรัน `counterfoil load` คำสั่งเดิมอีกครั้ง ระเบียนที่นำเข้าแล้วจะถูกข้าม",
    ),
    "message.load_again_if": (
        "If it is no longer running, {advice}",
        "ถ้าไม่ได้ทำงานอยู่แล้ว: {advice}",
    ),
    "message.load_stopped": (
        "The latest load did not finish: it stopped after {lines}, {span} ago.",
        "การนำเข้าล่าสุดไม่เสร็จ: หยุดหลังจาก {lines} เมื่อ {span}ที่แล้ว",
    ),
    "message.load_waiting": (
        "A load is waiting or was stopped: {lines} so far, nothing written for {span}.",
        "การนำเข้ากำลังรอหรือถูกหยุด: ถึงตอนนี้ {lines} ไม่มีการเขียนมา {span}",
    ),
    "message.doctor_again": (
        "Run `counterfoil doctor` again in two minutes.",
        "รัน `counterfoil doctor` อีกครั้งในสองนาที",
    ),
    "message.load_running": ("A load is running: {lines} so far.", "กำลังนำเข้า: ถึงตอนนี้ {lines}"),
    "message.intake_usual": ("The latest loads look like earlier ones.", "การนำเข้าล่าสุดเหมือนครั้งก่อน ๆ"),
    "message.intake_alarm": (
        "Sudden change, noticed {span} ago: {change}.",
        "พบการเปลี่ยนแปลงกะทันหันเมื่อ {span}ที่แล้ว: {change}",
    ),
    "message.accept_change": (
        "Check the POS export. If the change is intended, run `counterfoil load --accept-change`.",
        "ตรวจสอบข้อมูลจาก POS ถ้าตั้งใจเปลี่ยน ให้รัน `counterfoil load --accept-change`",
    ),
    "message.folder_watched": (
        "{folder} is watched: {files}, latest delivery {span} ago.",
        "กำลังเฝ้าโฟลเดอร์ {folder}: {files} ส่งล่าสุดเมื่อ {span}ที่แล้ว",
    ),
    "message.watcher_stopped": (
        "The watcher of {folder} was stopped {span} ago.",
        "ตัวเฝ้าโฟลเดอร์ {folder} ถูกหยุดเมื่อ {span}ที่แล้ว",
    ),
    "message.watcher_unseen": (
        "The watcher of {folder} was last seen {span} ago.",
        "พบตัวเฝ้าโฟลเดอร์ {folder} ล่าสุดเมื่อ {span}ที่แล้ว",
    ),
    "message.folder_silent": (
        "Nothing has been delivered to {folder} for {span}.",
        "ไม่มีข้อมูลส่งมาที่ {folder} มา {span}",
    ),
    "message.start_watcher": (
        "Start it again with `counterfoil load --watch {folder}`, or check its log.",
        "เริ่มอีกครั้งด้วย `counterfoil load --watch {folder}` หรือตรวจสอบบันทึก",
    ),
    "message.check_delivery": (
        "Check that the POS still delivers files. To change the limit, set silent_folder_min (in minutes).",
        "ตรวจสอบว่า POS ยังส่งไฟล์อยู่ หากต้องการเปลี่ยนขีดจำกัด ให้ตั้ง silent_folder_min (นาที)",
    ),
    # --- keys and shops ---
    "message.no_keys": (
        "There are no active keys. Run `counterfoil keys issue` to create one.",
        "ไม่มีคีย์ที่ใช้งานได้ รัน `counterfoil keys issue` เพื่อออกคีย์",
    ),
    "message.keys_below": (
        "{count}, all below 80 % of today's quota.",
        "{count} ทุกคีย์ใช้ต่ำกว่า 80% ของโควตาวันนี้",
    ),
    "message.keys_near": ("{count}; near today's quota: {names}.", "{count} ใกล้เต็มโควตาวันนี้: {names}"),
    "message.raise_quota": (
        "Run `counterfoil usage` for details. To raise a quota, run `counterfoil keys update KEYID --per-day N`.",
        "รัน `counterfoil usage` เพื่อดูรายละเอียด หากต้องการเพิ่มโควตา ให้รัน `counterfoil keys update KEYID --per-day N`",
    ),
    "message.shops_usual": (
        "{count}, none silent for longer than usual.",
        "{count} ไม่มีร้านใดเงียบนานกว่าปกติ",
    ),
    "message.shops_silent": ("{count}, {silent} silent: {names}.", "{count} เงียบ {silent} ร้าน: {names}"),
    "message.check_tills": (
        "Check their tills and deliveries. Run `counterfoil shops` to see all shops.",
        "ตรวจสอบเครื่องขายและการส่งข้อมูลของร้าน รัน `counterfoil shops` เพื่อดูทุกร้าน",
    ),
    # --- the cluster ---
    "message.see_postgresql": ("See docs/operate-postgresql.md.", "ดู docs/operate-postgresql.md ประกอบ"),
    "message.store_reachable": (
        "{store} is reachable, and its schema is up to date.",
        "ติดต่อ {store} ได้ และสคีมาเป็นปัจจุบัน",
    ),
    "message.no_primary": (
        "No server accepts writes. Loads fail, and nodes accept only keys in their memory, for at most {seconds} s.",
        "ไม่มีเซิร์ฟเวอร์ที่เขียนได้ การนำเข้าล้มเหลว และโหนดใช้คีย์ในหน่วยความจำได้เพียง {seconds} วินาที",
    ),
    "message.promote": (
        "Promote a replica, or restart the primary. See docs/operate-faults.md.",
        "เลื่อนเซิร์ฟเวอร์สำรองขึ้นเป็นหลัก หรือเริ่มเซิร์ฟเวอร์หลักใหม่ ดู docs/operate-faults.md",
    ),
    "message.server_silent": ("{server} does not respond.", "{server} ไม่ตอบสนอง"),
    "message.restart_server": (
        "Restart it, or remove it from the store address.",
        "เริ่มเซิร์ฟเวอร์ใหม่ หรือนำออกจากที่อยู่ของที่เก็บข้อมูล",
    ),
    "message.server_primary": ("{server} is the primary.", "{server} เป็นเซิร์ฟเวอร์หลัก"),
    "message.server_behind": (
        "{server} is {seconds} s behind, so no reads are sent to it.",
        "{server} ช้าไป {seconds} วินาที จึงไม่ใช้อ่านข้อมูล",
    ),
    "message.check_replication": (
        "Check its log, and pg_stat_replication on the primary.",
        "ตรวจสอบบันทึกของเซิร์ฟเวอร์ และ pg_stat_replication บนเซิร์ฟเวอร์หลัก",
    ),
    "message.server_replica": (
        "{server} is a replica, {milliseconds} ms behind.",
        "{server} เป็นเซิร์ฟเวอร์สำรอง ช้าไป {milliseconds} มิลลิวินาที",
    ),
    "message.login_wide": (
        "The login {login} has more permissions than serving needs: it {permissions}.",
        "ผู้ใช้ {login} มีสิทธิ์มากกว่าที่การให้บริการต้องใช้: {permissions}",
    ),
    "message.separate_login": (
        (
            "Use a separate login for serving: run `counterfoil migrate --roles` once, then `CREATE ROLE cf_api LOGIN "
            "IN ROLE counterfoil_serving`, and put that login in COUNTERFOIL_STORE."
        ),
        (
            "ใช้ผู้ใช้แยกสำหรับให้บริการ: รัน `counterfoil migrate --roles` หนึ่งครั้ง แล้ว `CREATE ROLE cf_api LOGIN IN "
            "ROLE counterfoil_serving` และใส่ผู้ใช้นั้นใน COUNTERFOIL_STORE"
        ),
    ),
    "message.login": ("The login {login} {permissions}.", "ผู้ใช้ {login}: {permissions}"),
    "message.meter_reachable": ("{address} is reachable.", "ติดต่อ {address} ได้"),
    "message.meter_problem": (
        "{address} cannot be used: {problem}. Until it can, every request gets 503.",
        "ใช้ {address} ไม่ได้: {problem} จนกว่าจะใช้ได้ ทุกคำขอจะได้รับ 503",
    ),
    "message.restart_meter": (
        "Restart it. It then continues with the counts in the store. See docs/operate-faults.md.",
        "เริ่มใหม่ แล้วจะนับต่อจากจำนวนในที่เก็บข้อมูล ดู docs/operate-faults.md",
    ),
}
