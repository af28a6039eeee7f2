"""Load bills into DuckDB with dlt, as in dlt's introduction: a resource and a pipeline; lists become child tables.

python dlt_load.py BILLS.ndjson FOLDER
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt

A_CHUNK = 2_000


# Every POS writes times in its own format. dlt would infer a timestamp from the first bill and fail on another format.
AS_WRITTEN = {name: {"data_type": "text"} for name in ("closedAt", "tradingDay")}


@dlt.resource(name="bills", primary_key="id", write_disposition="append", columns=AS_WRITTEN)
def bills(source: Path) -> Iterator[list[dict[str, Any]]]:
    with source.open("rb") as lines:
        chunk = []
        for line in lines:
            chunk.append(json.loads(line))
            if len(chunk) == A_CHUNK:
                yield chunk
                chunk = []
        yield chunk


if __name__ == "__main__":
    source, folder = map(Path, sys.argv[1:])
    dlt.config["runtime.dlthub_telemetry"] = False
    folder.mkdir(parents=True)
    pipeline = dlt.pipeline(
        pipeline_name="bench",
        pipelines_dir=str(folder / "pipelines"),
        destination=dlt.destinations.duckdb(str(folder / "bills.duckdb")),
        dataset_name="bench",
    )
    pipeline.run(bills(source))
