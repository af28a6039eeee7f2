// Reads the bills of every shop by change and prints how many it has read. It runs without packages; compiling it needs @types/node.
import type { operations } from "./openapi.js";

type Responses<Op extends keyof operations> = operations[Op]["responses"];
/** All bodies of an operation: the one with `ok: true`, and one for each error. */
type Body<Op extends keyof operations> = {
  [Status in keyof Responses<Op>]: Responses<Op>[Status] extends { content: { "application/json": infer Json } }
    ? Json
    : never;
}[keyof Responses<Op>];
type Bill = Extract<Body<"listTransactions">, { ok: true }>["data"][number];
type Query = operations["listTransactions"]["parameters"]["query"];

const url = process.env.COUNTERFOIL_URL ?? "http://127.0.0.1:8000/ext/v1";
const headers = { Authorization: `Bearer ${process.env.COUNTERFOIL_KEY}` };

async function get<Op extends keyof operations>(path: string, query: object = {}): Promise<Body<Op>> {
  const response = await fetch(`${url}/${path}?${new URLSearchParams(Object.entries(query))}`, { headers });
  return (await response.json()) as Body<Op>;
}

function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

async function* bills(query: Query): AsyncGenerator<Bill> {
  let cursor: string | null = null;
  let refusals = 0;
  for (;;) {
    const page: Body<"listTransactions"> = await get("transactions", cursor === null ? query : { ...query, cursor });
    if (page.ok) {
      yield* page.data;
      if (page.nextCursor === null) return;
      cursor = page.nextCursor;
    } else if (page.error === "rate_limited") {
      await pause(page.retryAfterSec);
    } else if (page.error === "bad_cursor") {
      cursor = null; // start this list again, after a pause: a server may lag behind another
      await pause(Math.min(60, 2 ** refusals++));
    } else {
      throw new Error(`${page.error}: ${page.message}`);
    }
  }
}

const shops = await get<"listShops">("shops");
if (!shops.ok) throw new Error(`${shops.error}: ${shops.message}`);
for (const { shopId } of shops.data) {
  const read = new Map<string, Bill>(); // a list that starts again returns bills twice
  for await (const bill of bills({ shopId, updatedSince: "1970-01-01T00:00:00Z", limit: 200 })) read.set(bill.id, bill);
  console.log(shopId, read.size);
}
