"""Keeps a copy of shops and bills in feed.sqlite3, by the change feed. See docs/own-client.md."""

import json, os, sqlite3, time

import requests

URL, HEADERS = os.environ["COUNTERFOIL_URL"], {"Authorization": f"Bearer {os.environ['COUNTERFOIL_KEY']}"}

db = sqlite3.connect("feed.sqlite3")
db.execute("CREATE TABLE IF NOT EXISTS shops (id PRIMARY KEY, body)")
db.execute("CREATE TABLE IF NOT EXISTS bills (shop, id, body, PRIMARY KEY (shop, id))")
db.execute("CREATE TABLE IF NOT EXISTS progress (one PRIMARY KEY CHECK (one = 1), since, cursor)")
db.execute("INSERT OR IGNORE INTO progress VALUES (1, NULL, NULL)")
db.commit()


def apply(element):
    shop, kind = element["shopId"], element["type"]
    if element.get("full"):
        db.execute("DELETE FROM bills WHERE shop = ?", [shop])
    if kind == "shop":
        db.execute("INSERT OR REPLACE INTO shops VALUES (?, ?)", [shop, json.dumps(element["shop"])])
    elif kind == "shopRemoved":
        db.execute("DELETE FROM shops WHERE id = ?", [shop])
    elif kind == "bill":
        bill = element["bill"]
        db.execute("INSERT OR REPLACE INTO bills VALUES (?, ?, ?)", [shop, bill["id"], json.dumps(bill)])
    elif kind == "billRemoved":
        db.execute("DELETE FROM bills WHERE shop = ? AND id = ?", [shop, element["id"]])


refusals = 0
while True:
    since, cursor = db.execute("SELECT since, cursor FROM progress").fetchone()
    query = {"limit": 1000, "since": since, "cursor": cursor}  # requests leaves out what is None
    response = requests.get(f"{URL}/changes", params=query, headers=HEADERS, timeout=60)
    if "Retry-After" in response.headers:
        time.sleep(int(response.headers["Retry-After"]))
        continue
    error = response.json()["error"] if response.status_code == 400 else None
    if error in ("bad_cursor", "mark_expired") and (since or cursor):
        time.sleep(min(60, 2**refusals))  # a server may lag behind another
        refusals += 1
        with db:
            if cursor and error == "bad_cursor":  # start this pass again
                db.execute("UPDATE progress SET cursor = NULL")
            else:  # start from nothing
                db.execute("DELETE FROM shops")
                db.execute("DELETE FROM bills")
                db.execute("UPDATE progress SET since = NULL, cursor = NULL")
        continue
    response.raise_for_status()  # run it again later
    page = response.json()
    with db:  # one transaction: the elements and the progress, or neither
        for element in page["data"]:
            apply(element)
        since = since if page["mark"] is None else page["mark"]
        db.execute("UPDATE progress SET since = ?, cursor = ?", [since, page["nextCursor"]])
    if page["nextCursor"] is None:
        break
