-- Tables as a team that builds this API on a framework would design them: one row per shop, category, bill and member,
-- with plain columns for simple values and JSON columns for the lists inside a bill or a member. The contestants
-- therefore need no joins and no calculations: strings are stored as they are returned, and points and credit have
-- today's values. The same statements work in SQLite and PostgreSQL.

CREATE TABLE shops (
    place INTEGER PRIMARY KEY,
    shop_id TEXT NOT NULL UNIQUE,
    shop_name TEXT,
    franchise_id TEXT,
    provider_id TEXT,
    timezone TEXT
);
CREATE INDEX shops_of_franchise ON shops (franchise_id, place);

CREATE TABLE categories (
    shop_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT,
    level INTEGER,
    parent_id TEXT,
    hidden BOOLEAN NOT NULL,
    PRIMARY KEY (shop_id, place)
);

CREATE TABLE bills (
    shop_id TEXT NOT NULL,
    id TEXT NOT NULL,
    bill_day INTEGER NOT NULL,
    closed_ms BIGINT,
    updated_ms BIGINT,
    order_ids JSON NOT NULL,
    receipt_number TEXT,
    tax_number TEXT,
    timestamp TEXT,
    business_date TEXT,
    bill_date TEXT,
    updated_at TEXT,
    franchise_id TEXT,
    device_id TEXT,
    station_id TEXT,
    channel JSON NOT NULL,
    service_type TEXT,
    table_name TEXT,
    member_id TEXT,
    items JSON NOT NULL,
    amounts JSON NOT NULL,
    payments JSON NOT NULL,
    status TEXT NOT NULL,
    void_reason TEXT,
    cashier TEXT,
    PRIMARY KEY (id, shop_id)
);
CREATE INDEX bills_by_day ON bills (shop_id, bill_day, closed_ms, id);
CREATE INDEX bills_by_change ON bills (shop_id, updated_ms, id);

CREATE TABLE members (
    member_id TEXT PRIMARY KEY,
    provider_id TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    rank TEXT,
    rank_level INTEGER,
    rank_name TEXT,
    points DOUBLE PRECISION NOT NULL,
    credit DOUBLE PRECISION NOT NULL,
    credit_enabled BOOLEAN NOT NULL,
    coupons JSON NOT NULL,
    labels JSON NOT NULL,
    persona JSON NOT NULL,
    created_date TEXT,
    visit_count INTEGER NOT NULL,
    last_visit TEXT,
    has_tel BOOLEAN NOT NULL,
    has_email BOOLEAN NOT NULL,
    has_messaging BOOLEAN NOT NULL
);
CREATE INDEX members_by_signup ON members (provider_id, created_ms, member_id);

CREATE TABLE accounts (
    provider_id TEXT NOT NULL,
    messaging_user_id TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    member_id TEXT NOT NULL
);
CREATE INDEX accounts_by_user ON accounts (provider_id, messaging_user_id);
