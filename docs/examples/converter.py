"""A converter for a till whose exports have a line for each bill: number;time;total."""

import json
import sys
from decimal import Decimal
from pathlib import Path


def say(kind, **fields):
    print(json.dumps({"v": 1, "type": kind, **fields}), flush=True)


for line in sys.stdin:
    request = json.loads(line)
    records, net = 0, Decimal(0)
    for file in request["files"]:
        path = Path(file["path"])
        for number, row in enumerate(path.read_text("utf-8").splitlines(), start=1):
            bill, closed_at, total = row.split(";")
            record = {
                "kind": "bill",
                "id": bill,
                "shopId": request["shop"],
                "closedAt": closed_at,
                "amounts": {"net": total},
            }
            say("record", file=path.name, line=number, record=record)
            records, net = records + 1, net + Decimal(total)
    say("end", records=records, rejects=0, leftOut=0, totals=0, net=str(net))
