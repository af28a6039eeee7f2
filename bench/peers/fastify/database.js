// Statements for better-sqlite3 and pg. Columns have the names of the JSON fields. JSON columns are parsed by pg
// itself; for SQLite they are parsed here.

const BILL = `
  id, order_ids AS "orderIds", receipt_number AS "receiptNumber", tax_number AS "taxNumber", timestamp,
  business_date AS "businessDate", bill_date AS "billDate", updated_at AS "updatedAt", franchise_id AS "franchiseId",
  shop_id AS "shopId", device_id AS "deviceId", station_id AS "stationId", channel, service_type AS "serviceType",
  table_name AS "tableName", member_id AS "memberId", items, amounts, payments, status, void_reason AS "voidReason",
  cashier`;
const BILL_LISTS = ["orderIds", "channel", "items", "amounts", "payments"];

const MEMBER = `
  member_id AS "memberId", rank, rank_level AS "rankLevel", rank_name AS "rankName", points, credit,
  credit_enabled AS "creditEnabled", coupons, labels, persona, created_date AS "createdDate",
  visit_count AS "visitCount", last_visit AS "lastVisit", has_tel AS "hasTel", has_email AS "hasEmail",
  has_messaging AS "hasMessaging"`;
const MEMBER_LISTS = ["coupons", "labels", "persona"];

const SQL = {
  shops: `SELECT shop_id AS "shopId", shop_name AS "shopName", franchise_id AS "franchiseId",
    provider_id AS "providerId", timezone FROM shops WHERE franchise_id = $1 ORDER BY place`,
  categories: `SELECT c.shop_id AS "shopId", c.id, c.name, c.level, c.parent_id AS "parentId", c.hidden
    FROM categories c JOIN shops s ON s.shop_id = c.shop_id WHERE s.franchise_id = $1 ORDER BY c.shop_id, c.place`,
  billPlace: `SELECT bill_day, closed_ms, updated_ms FROM bills WHERE id = $1 AND shop_id = $2`,
  byDay: `SELECT ${BILL} FROM bills WHERE shop_id = $1 AND (bill_day, closed_ms, id) > ($2, $3, $4)
    AND bill_day <= $5 ORDER BY bill_day, closed_ms, id LIMIT $6`,
  byChange: `SELECT ${BILL} FROM bills WHERE shop_id = $1 AND (updated_ms, id) > ($2, $3)
    ORDER BY updated_ms, id LIMIT $4`,
  bill: `SELECT ${BILL} FROM bills WHERE id = $1 LIMIT 1`,
  memberPlace: `SELECT created_ms FROM members WHERE member_id = $1`,
  members: `SELECT ${MEMBER} FROM members WHERE provider_id = $1 AND (created_ms, member_id) > ($2, $3)
    ORDER BY created_ms, member_id LIMIT $4`,
  member: `SELECT ${MEMBER} FROM members WHERE member_id = $1`,
  lookup: `SELECT member_id AS "memberId" FROM accounts WHERE provider_id = $1 AND messaging_user_id = $2
    ORDER BY created_ms DESC, member_id DESC LIMIT 1`,
};

export async function openDatabase(url) {
  return new Database(url.startsWith("sqlite") ? await openSqlite(url) : await openPostgres(url));
}

class Database {
  constructor(all) {
    this.all = all;
  }

  async shops(franchiseId) {
    const found = await this.all("shops", [franchiseId]);
    const categories = new Map(found.map((shop) => [shop.shopId, (shop.categories = [])]));
    for (const row of await this.all("categories", [franchiseId])) {
      row.hidden = Boolean(row.hidden);
      categories.get(row.shopId).push(row);
    }
    return found;
  }

  async billsByDay(shopId, first, last, cursor, limit) {
    const [after] = cursor ? await this.all("billPlace", [cursor, shopId]) : [];
    const place = after ? [after.bill_day, after.closed_ms, cursor] : [first, -1, ""];
    return this.all("byDay", [shopId, ...place, last, limit], BILL_LISTS);
  }

  async billsByChange(shopId, since, cursor, limit) {
    const [after] = cursor ? await this.all("billPlace", [cursor, shopId]) : [];
    const place = after ? [after.updated_ms, cursor] : [since, ""];
    return this.all("byChange", [shopId, ...place, limit], BILL_LISTS);
  }

  async bill(id) {
    return (await this.all("bill", [id], BILL_LISTS))[0];
  }

  async members(providerId, cursor, limit) {
    const [after] = cursor ? await this.all("memberPlace", [cursor]) : [];
    return this.all("members", [providerId, after ? after.created_ms : -1, cursor ?? "", limit], MEMBER_LISTS);
  }

  async member(token) {
    return (await this.all("member", [token], MEMBER_LISTS))[0];
  }

  async lookup(providerId, userId) {
    return (await this.all("lookup", [providerId, userId]))[0];
  }
}

async function openSqlite(url) {
  const { default: Sqlite } = await import("better-sqlite3");
  const file = new Sqlite(url.replace("sqlite:///", ""), { readonly: true });
  const statements = Object.fromEntries(
    Object.entries(SQL).map(([name, sql]) => [name, file.prepare(sql.replaceAll(/\$\d/g, "?"))]),
  );
  return (name, values, lists = []) => {
    const rows = statements[name].all(...values);
    for (const row of rows) for (const list of lists) row[list] = JSON.parse(row[list]);
    return rows;
  };
}

async function openPostgres(url) {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  return async (name, values) => (await pool.query({ name, text: SQL[name], values })).rows;
}
