// The API on Bun alone: Bun.serve and bun:sqlite.
//
//     DATABASE=peers.sqlite3 PORT=8000 bun server.js
//
// With DUTIES=duties.sqlite3, every request needs a key, is counted and is recorded. Without it there are no keys,
// limits or request records, and `franchiseId` replaces the scope of a key.

import { openDatabase } from "./database.js";
import { openDuties } from "./duties.js";

const database = openDatabase(process.env.DATABASE);
const duties = process.env.DUTIES ? openDuties(process.env.DUTIES) : null;
const now = () => new Date().toISOString();

const refusal = (status, error, headers) => Response.json({ ok: false, error }, { status, headers });
const answer = (data) => (data ? Response.json({ ok: true, data, serverTime: now() }) : refusal(404, "not_found"));
const page = (data, limit, cursor) =>
  Response.json({
    ok: true,
    data,
    nextCursor: data.length === limit ? data.at(-1)[cursor] : null,
    serverTime: now(),
  });
const limited = (query) => Math.min(Number(query.get("limit") ?? 100), 200);
const queryOf = (request) => new URL(request.url).searchParams;

const handlers = {
  "/ext/v1/shops": (request, key) =>
    answer(database.shops(key ? key.franchise_id : queryOf(request).get("franchiseId"))),
  "/ext/v1/transactions": (request) => {
    const query = queryOf(request);
    const limit = limited(query);
    const since = query.get("updatedSince");
    const [shopId, cursor] = [query.get("shopId"), query.get("cursor")];
    const bills = since
      ? database.billsByChange(shopId, Date.parse(since), cursor, limit)
      : database.billsByDay(shopId, Number(query.get("from")), Number(query.get("to")), cursor, limit);
    return page(bills, limit, "id");
  },
  "/ext/v1/transactions/:id": (request) => answer(database.bill(request.params.id)),
  "/ext/v1/members": (request) => {
    const query = queryOf(request);
    const limit = limited(query);
    return page(database.members(query.get("providerId"), query.get("cursor"), limit), limit, "memberId");
  },
  "/ext/v1/members/lookup": (request) => {
    const query = queryOf(request);
    return answer(database.lookup(query.get("providerId"), query.get("messagingUserId")));
  },
  "/ext/v1/members/:token": (request) => answer(database.member(request.params.token)),
};

const withDuties = (route, handle) => async (request) => {
  const began = Bun.nanoseconds();
  const key = duties.keyOf(request.headers.get("authorization"));
  if (!key) return refusal(401, "invalid_key");
  const admitted = await duties.admit(key);
  if (admitted.retryAfterSec) {
    return refusal(429, "rate_limited", { "Retry-After": String(admitted.retryAfterSec) });
  }
  const response = admitted.count > key.per_day ? refusal(429, "quota_exceeded") : handle(request, key);
  duties.note(key.key_id, route, response.status, Math.round((Bun.nanoseconds() - began) / 1000));
  return response;
};

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(process.env.PORT),
  routes: Object.fromEntries(
    Object.entries(handlers).map(([route, handle]) => [
      route,
      duties ? withDuties(route, handle) : (request) => handle(request),
    ]),
  ),
  fetch: () => refusal(404, "not_found"),
});
