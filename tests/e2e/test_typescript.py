"""Tests the TypeScript program of docs/examples, compiled with types generated from the OpenAPI document."""

import json
from pathlib import Path

import pytest

from e2e.served_demo import MODULES, Demo, needs_node_tools, node_program, run

pytestmark = pytest.mark.programs

PROGRAM = Path(__file__).parents[2] / "docs" / "examples" / "bills.ts"
STRICT = {
    "strict": True,
    "noUncheckedIndexedAccess": True,
    "exactOptionalPropertyTypes": True,
    "noImplicitReturns": True,
    "noUnusedLocals": True,
    "skipLibCheck": True,
    "target": "es2022",
    "lib": ["es2023"],
    "module": "nodenext",
    "typeRoots": [str(MODULES / "@types")],
    "types": ["node"],
}
PAGE = 20
# This module compiles only if the generated types are exact: `@ts-expect-error` fails if the next line has no error.
TYPES = """
import type { components, operations } from "./openapi.js";
type Schemas = components["schemas"];
export function read(page: Schemas["BillsAnswer"] | Schemas["RateLimited"] | Schemas["BadCursor"]): number | null {
  // @ts-expect-error A refusal has no data.
  page.data;
  if (page.ok) return page.data[0]?.amounts.net ?? null;
  // @ts-expect-error Only rate_limited says how long to wait.
  page.retryAfterSec;
  return page.error === "rate_limited" ? page.retryAfterSec : null;
}
export const paths: string[] = Object.keys({} as Schemas["Description"]["paths"]);
export const path: Schemas["Description"]["paths"] = { "/v1/shops": {} };
// @ts-expect-error A shop is required.
export const query: operations["listTransactions"]["parameters"]["query"] = { limit: 200 };
// @ts-expect-error A bill has one of two states.
export const status: Schemas["Bill"]["status"] = "open";
export const tel: Schemas["Member"]["tel"] = null;
"""


def program() -> str:
    """Return the program with pages so small that it must follow cursors."""
    code = PROGRAM.read_text("utf-8")
    assert code.count("limit: 200") == 1
    return code.replace("limit: 200", f"limit: {PAGE}")


@pytest.fixture(scope="module")
def compiled(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, compiled in strict mode with the generated types."""
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "document.json").write_bytes(demo.server.client.get(f"{demo.url}/ext/v1/openapi.json").content)
    run(node_program("openapi-typescript"), "document.json", "--output", "openapi.ts", cwd=folder)
    (folder / "bills.ts").write_text(program())
    (folder / "types.ts").write_text(TYPES)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": STRICT, "include": ["*.ts"]}))
    run(node_program("tsc"), "--project", ".", cwd=folder)
    return folder


def read_with(compiled: Path, demo: Demo, key: str) -> dict[str, int]:
    """Run the program; return the number of bills that it read from each shop."""
    environment = {"COUNTERFOIL_URL": f"{demo.url}/ext/v1", "COUNTERFOIL_KEY": key}
    lines = run("node", "bills.js", cwd=compiled, environment=environment).splitlines()
    return {shop_id: int(count) for shop_id, count in (line.split() for line in lines)}


# Generating and compiling the types takes seconds, so all checks are in one test.
@needs_node_tools
def test_a_typescript_program_with_generated_types_reads_every_bill_and_reports_an_error(
    compiled: Path, demo: Demo
) -> None:
    read = read_with(compiled, demo, demo.key("franchise"))
    assert read == {shop_id: len(demo.held({shop_id}, tracked_only=True)) for shop_id in read}
    assert len(read) > 1
    assert min(read.values()) > PAGE
    with pytest.raises(AssertionError, match="invalid_key"):
        read_with(compiled, demo, "not-a-key")
