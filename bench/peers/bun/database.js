// Statements for bun:sqlite. Columns have the names of the JSON fields; JSON columns are parsed here.

import { Database } from "bun:sqlite";

const BILL = `
  id, order_ids AS "orderIds", receipt_number AS "receiptNumber", tax_number AS "taxNumber", timestamp,
  business_date AS "businessDate", bill_date AS "billDate", updated_at AS "updatedAt", franchise_id AS "franchiseId",
  shop_id AS "shopId", device_id AS "deviceId", station_id AS "stationId", channel, service_type AS "serviceType",
  table_name AS "tableName", member_id AS "memberId", items, amounts, payments, status, void_reason AS "voidReason",
  cashier`;
const MEMBER = `
  member_id AS "memberId", rank, rank_level AS "rankLevel", rank_name AS "rankName", points, credit,
  credit_enabled AS "creditEnabled", coupons, labels, persona, created_date AS "createdDate",
  visit_count AS "visitCount", last_visit AS "lastVisit", has_tel AS "hasTel", has_email AS "hasEmail",
  has_messaging AS "hasMessaging"`;

export function openDatabase(path) {
  const file = new Database(path, { readonly: true });
  const shops = file.query(`SELECT shop_id AS "shopId", shop_name AS "shopName", franchise_id AS "franchiseId",
    provider_id AS "providerId", timezone FROM shops WHERE franchise_id = ? ORDER BY place`);
  const categories = file.query(`SELECT c.shop_id AS "shopId", c.id, c.name, c.level, c.parent_id AS "parentId",
    c.hidden FROM categories c JOIN shops s ON s.shop_id = c.shop_id WHERE s.franchise_id = ?
    ORDER BY c.shop_id, c.place`);
  const billPlace = file.query(`SELECT bill_day, closed_ms, updated_ms FROM bills WHERE id = ? AND shop_id = ?`);
  const byDay = file.query(`SELECT ${BILL} FROM bills WHERE shop_id = ? AND (bill_day, closed_ms, id) > (?, ?, ?)
    AND bill_day <= ? ORDER BY bill_day, closed_ms, id LIMIT ?`);
  const byChange = file.query(`SELECT ${BILL} FROM bills WHERE shop_id = ? AND (updated_ms, id) > (?, ?)
    ORDER BY updated_ms, id LIMIT ?`);
  const oneBill = file.query(`SELECT ${BILL} FROM bills WHERE id = ? LIMIT 1`);
  const memberPlace = file.query(`SELECT created_ms FROM members WHERE member_id = ?`);
  const memberPage = file.query(`SELECT ${MEMBER} FROM members WHERE provider_id = ?
    AND (created_ms, member_id) > (?, ?) ORDER BY created_ms, member_id LIMIT ?`);
  const oneMember = file.query(`SELECT ${MEMBER} FROM members WHERE member_id = ?`);
  const account = file.query(`SELECT member_id AS "memberId" FROM accounts WHERE provider_id = ?
    AND messaging_user_id = ? ORDER BY created_ms DESC, member_id DESC LIMIT 1`);

  return {
    shops(franchiseId) {
      const found = shops.all(franchiseId);
      const of = new Map(found.map((shop) => [shop.shopId, (shop.categories = [])]));
      for (const { shopId, hidden, ...category } of categories.all(franchiseId)) {
        of.get(shopId).push({ ...category, hidden: hidden === 1 });
      }
      return found;
    },
    billsByDay(shopId, first, last, cursor, limit) {
      const after = cursor && billPlace.get(cursor, shopId);
      const place = after ? [after.bill_day, after.closed_ms, cursor] : [first, -1, ""];
      return byDay.all(shopId, ...place, last, limit).map(bill);
    },
    billsByChange(shopId, since, cursor, limit) {
      const after = cursor && billPlace.get(cursor, shopId);
      const place = after ? [after.updated_ms, cursor] : [since, ""];
      return byChange.all(shopId, ...place, limit).map(bill);
    },
    bill(id) {
      const found = oneBill.get(id);
      return found && bill(found);
    },
    members(providerId, cursor, limit) {
      const after = cursor && memberPlace.get(cursor);
      return memberPage.all(providerId, after ? after.created_ms : -1, cursor ?? "", limit).map(member);
    },
    member(token) {
      const found = oneMember.get(token);
      return found && member(found);
    },
    lookup: (providerId, userId) => account.get(providerId, userId),
  };
}

function bill(row) {
  row.orderIds = JSON.parse(row.orderIds);
  row.channel = JSON.parse(row.channel);
  row.items = JSON.parse(row.items);
  row.amounts = JSON.parse(row.amounts);
  row.payments = JSON.parse(row.payments);
  return row;
}

function member(row) {
  row.creditEnabled = row.creditEnabled === 1;
  row.coupons = JSON.parse(row.coupons);
  row.labels = JSON.parse(row.labels);
  row.persona = JSON.parse(row.persona);
  row.hasTel = row.hasTel === 1;
  row.hasEmail = row.hasEmail === 1;
  row.hasMessaging = row.hasMessaging === 1;
  return row;
}
