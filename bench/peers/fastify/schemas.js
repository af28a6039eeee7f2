// Response schemas, which Fastify compiles into serialisers.

const text = { type: "string" };
const truth = { type: "boolean" };
const maybeText = { type: "string", nullable: true };
const number = { type: "number" };
const maybeNumber = { type: "number", nullable: true };
const maybeInteger = { type: "integer", nullable: true };
const listOf = (items) => ({ type: "array", items });
const object = (properties) => ({ type: "object", properties });

const category = object({ id: text, name: maybeText, level: maybeInteger, parentId: maybeText, hidden: truth });
const promotions = listOf(object({ id: maybeText, name: maybeText, amount: number }));

const item = object({
  id: maybeText,
  rootId: maybeText,
  name: maybeText,
  qty: maybeNumber,
  unitPrice: maybeNumber,
  lineTotal: maybeNumber,
  options: listOf(object({ choiceId: maybeText, choiceName: maybeText, qty: number })),
  category: { ...listOf(text), nullable: true },
  cancelled: truth,
  vat: truth,
  isTip: truth,
});

const amounts = object({
  subtotal: maybeNumber,
  discount: maybeNumber,
  campaign: promotions,
  coupon: promotions,
  discountTotal: maybeNumber,
  serviceCharge: maybeNumber,
  deliveryFee: maybeNumber,
  cardSurcharge: maybeNumber,
  credit: maybeNumber,
  vat: maybeNumber,
  vatType: maybeText,
  rounding: maybeNumber,
  tip: maybeNumber,
  net: maybeNumber,
});

export const shop = object({
  shopId: text,
  shopName: maybeText,
  franchiseId: maybeText,
  providerId: maybeText,
  timezone: maybeText,
  categories: listOf(category),
});

export const bill = object({
  id: text,
  orderIds: listOf(text),
  receiptNumber: maybeText,
  taxNumber: maybeText,
  timestamp: maybeText,
  businessDate: maybeText,
  billDate: maybeText,
  updatedAt: maybeText,
  franchiseId: maybeText,
  shopId: text,
  deviceId: maybeText,
  stationId: maybeText,
  channel: object({ code: maybeText, name: maybeText }),
  serviceType: maybeText,
  tableName: maybeText,
  memberId: maybeText,
  items: listOf(item),
  amounts,
  payments: listOf(object({ name: maybeText, amount: maybeNumber, change: maybeNumber })),
  status: text,
  voidReason: maybeText,
  cashier: maybeText,
});

export const member = object({
  memberId: text,
  rank: maybeText,
  rankLevel: maybeInteger,
  rankName: maybeText,
  points: number,
  credit: number,
  creditEnabled: truth,
  coupons: listOf(
    object({ code: maybeText, status: maybeText, templateId: maybeText, name: maybeText, expireAt: maybeText }),
  ),
  labels: listOf(text),
  persona: listOf(text),
  createdDate: maybeText,
  visitCount: { type: "integer" },
  lastVisit: maybeText,
  hasTel: truth,
  hasEmail: truth,
  hasMessaging: truth,
});

export const memberReference = object({ memberId: text });

export const answerOf = (data) => object({ ok: truth, data, serverTime: text });
export const pageOf = (items) => object({ ok: truth, data: listOf(items), nextCursor: maybeText, serverTime: text });
