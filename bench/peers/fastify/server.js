// The API as a Fastify team would write it: prepared statements, response schemas.
//
//     DATABASE_URL=sqlite:///peers.sqlite3 PORT=8000 node server.js
//
// There are no keys, limits or request records. `franchiseId` replaces the scope of a key.

import Fastify from "fastify";

import { openDatabase } from "./database.js";
import { answerOf, bill, member, memberReference, pageOf, shop } from "./schemas.js";

const app = Fastify();
const database = await openDatabase(process.env.DATABASE_URL);
const now = () => new Date().toISOString();

const answer = (reply, data) =>
  data === undefined ? reply.code(404).send({ ok: false, error: "not_found" }) : { ok: true, data, serverTime: now() };

const page = (data, limit, cursor) => ({
  ok: true,
  data,
  nextCursor: data.length === limit ? data.at(-1)[cursor] : null,
  serverTime: now(),
});

const limited = ({ limit = 100 }) => Math.min(Number(limit), 200);
const answering = (schema) => ({ schema: { response: { 200: schema } } });

app.get("/ext/v1/shops", answering(answerOf({ type: "array", items: shop })), async (request, reply) =>
  answer(reply, await database.shops(request.query.franchiseId)),
);

app.get("/ext/v1/transactions", answering(pageOf(bill)), async (request) => {
  const { shopId, from, to, updatedSince, cursor } = request.query;
  const limit = limited(request.query);
  const bills = updatedSince
    ? await database.billsByChange(shopId, Date.parse(updatedSince), cursor, limit)
    : await database.billsByDay(shopId, Number(from), Number(to), cursor, limit);
  return page(bills, limit, "id");
});

app.get("/ext/v1/transactions/:id", answering(answerOf(bill)), async (request, reply) =>
  answer(reply, await database.bill(request.params.id)),
);

app.get("/ext/v1/members", answering(pageOf(member)), async (request) => {
  const limit = limited(request.query);
  return page(await database.members(request.query.providerId, request.query.cursor, limit), limit, "memberId");
});

app.get("/ext/v1/members/lookup", answering(answerOf(memberReference)), async (request, reply) =>
  answer(reply, await database.lookup(request.query.providerId, request.query.messagingUserId)),
);

app.get("/ext/v1/members/:token", answering(answerOf(member)), async (request, reply) =>
  answer(reply, await database.member(request.params.token)),
);

await app.listen({ host: "127.0.0.1", port: Number(process.env.PORT) });
