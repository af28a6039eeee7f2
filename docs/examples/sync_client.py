"""Keeps a copy in copy.sqlite3, following docs/own-client.md. Run it once a week with --full. It needs requests."""

import json, os, sqlite3, sys, time
from datetime import date, datetime

import requests

URL, HEADERS = os.environ["COUNTERFOIL_URL"], {"Authorization": f"Bearer {os.environ['COUNTERFOIL_KEY']}"}
FIRST_DAY = date.fromisoformat(os.environ.get("FIRST_DAY") or "2025-01-01")  # the date of your oldest bill
EVER = "1970-01-01T00:00:00Z"


class OutOfScope(Exception):
    """The key can no longer read this shop or base."""


def pages(path, **query):
    refusals = 0
    while True:
        response = requests.get(f"{URL}/{path}", params=query, headers=HEADERS, timeout=60)
        if "Retry-After" in response.headers:
            time.sleep(int(response.headers["Retry-After"]))
            continue
        error = response.json()["error"] if response.status_code in (400, 403) else None
        if error == "bad_cursor":
            del query["cursor"]  # start this list again, after a pause: a server may lag behind another
            time.sleep(min(60, 2**refusals))
            refusals += 1
            continue
        if error in ("shop_not_in_scope", "provider_not_in_scope"):
            raise OutOfScope
        response.raise_for_status()  # run it again later: no mark of an unfinished shop has moved
        yield (page := response.json())
        if page.get("nextCursor") is None:
            return
        query["cursor"] = page["nextCursor"]


def full_read(today):  # every window, then whatever has no date
    starts = range(FIRST_DAY.toordinal(), today.toordinal() + 32, 31)
    windows = [(date.fromordinal(start), date.fromordinal(start + 30)) for start in starts]
    return [{"from": f"{first:%Y%m%d}", "to": f"{last:%Y%m%d}"} for first, last in windows] + [{"updatedSince": EVER}]


def instant(text):
    return datetime.fromisoformat(text).timestamp() if text else 0


db = sqlite3.connect("copy.sqlite3")
db.execute("CREATE TABLE IF NOT EXISTS shops (id PRIMARY KEY, mark, body)")
db.execute("CREATE TABLE IF NOT EXISTS bills (shop, id, changed, body, PRIMARY KEY (shop, id))")
db.execute("CREATE TABLE IF NOT EXISTS members (id PRIMARY KEY, base, body)")
upsert = """INSERT INTO bills VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET changed = excluded.changed, body = excluded.body WHERE excluded.changed >= changed"""

listed = next(pages("shops"))
shops, new_mark = {shop["shopId"]: shop for shop in listed["data"]}, listed["serverTime"]
with db:
    for [known] in db.execute("SELECT id FROM shops").fetchall():
        if known not in shops or "--full" in sys.argv:
            db.execute("UPDATE shops SET mark = NULL WHERE id = ?", [known])
    rows = [(shop_id, json.dumps(shop)) for shop_id, shop in shops.items()]
    db.executemany("INSERT INTO shops (id, body) VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body", rows)

for shop_id in shops:
    [mark] = db.execute("SELECT mark FROM shops WHERE id = ?", [shop_id]).fetchone()
    try:
        with db:  # one transaction: the bills and the mark, or neither
            if mark is None:
                db.execute("DELETE FROM bills WHERE shop = ?", [shop_id])
            for query in [{"updatedSince": mark}] if mark else full_read(date.fromisoformat(new_mark[:10])):
                for page in pages("transactions", shopId=shop_id, limit=200, **query):
                    rows = [(shop_id, b["id"], instant(b["updatedAt"]), json.dumps(b)) for b in page["data"]]
                    db.executemany(upsert, rows)
            db.execute("UPDATE shops SET mark = ? WHERE id = ?", [new_mark, shop_id])
    except OutOfScope:
        with db:
            db.execute("UPDATE shops SET mark = NULL WHERE id = ?", [shop_id])

for base in {shop["providerId"] for shop in shops.values()} - {None}:
    try:
        with db:
            db.execute("DELETE FROM members WHERE base = ?", [base])
            for page in pages("members", providerId=base, limit=200):
                rows = [(m["memberId"], base, json.dumps(m)) for m in page["data"]]
                db.executemany("INSERT OR REPLACE INTO members VALUES (?, ?, ?)", rows)
    except OutOfScope:
        pass
