-- Grants each role what it needs and nothing else. `counterfoil migrate --roles` runs this; it can be repeated.

GRANT USAGE ON SCHEMA counterfoil TO counterfoil_serving, counterfoil_loading, counterfoil_administration;
GRANT SELECT ON migrations, deployment, horizon, shops, bills, bases, members, accounts, removals, loads,
    shop_changes, departures, removed_bills, feed, day_totals, intake, watched_folders, rejected_lines, open_items,
    delivery_previews, forgotten_members
    TO counterfoil_serving, counterfoil_loading, counterfoil_administration;

-- Serving reads the books and the keys, advances the horizon while nothing is loaded, deletes old removals, computes
-- totals, and writes usage.
GRANT SELECT ON keys, generation TO counterfoil_serving;
-- The service reports the age of the latest backup. It cannot read who did what.
GRANT SELECT (at, act) ON audit TO counterfoil_serving;
GRANT UPDATE ON horizon TO counterfoil_serving;
GRANT DELETE ON removed_bills TO counterfoil_serving;
GRANT INSERT, UPDATE ON feed TO counterfoil_serving;
GRANT UPDATE, DELETE ON day_totals TO counterfoil_serving;
GRANT SELECT, INSERT, UPDATE, DELETE ON meters, admissions, daily_totals, cursors, floors TO counterfoil_serving;
GRANT SELECT, INSERT, UPDATE, DELETE ON daily_errors, passes TO counterfoil_serving;
GRANT SELECT, INSERT, DELETE ON requests TO counterfoil_serving;

-- Loading writes the books and cannot read keys.
GRANT INSERT ON deployment TO counterfoil_loading;
GRANT UPDATE ON horizon TO counterfoil_loading;
GRANT INSERT, UPDATE, DELETE ON shops, bills, bases, members, accounts, removals, loads, rejected_lines, intake,
    watched_folders, open_items, delivery_previews, forgotten_members TO counterfoil_loading;
GRANT INSERT, UPDATE, DELETE ON shop_changes, departures, removed_bills, feed, day_totals TO counterfoil_loading;

-- Administration issues keys, signs devices in to the console, and reads and prunes usage.
GRANT SELECT, INSERT, UPDATE ON keys TO counterfoil_administration;
GRANT SELECT, INSERT, UPDATE, DELETE ON console_devices TO counterfoil_administration;
GRANT SELECT, UPDATE ON generation TO counterfoil_administration;
GRANT SELECT, DELETE ON meters, admissions, daily_totals, daily_errors, passes, cursors, floors, requests
    TO counterfoil_administration;
GRANT UPDATE ON cursors, open_items TO counterfoil_administration;
GRANT SELECT, INSERT ON audit TO counterfoil_administration;

REVOKE EXECUTE ON FUNCTION admit, admit_with_horizon, request_month, drop_request_months FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admit, admit_with_horizon, request_month, drop_request_months TO counterfoil_serving;
GRANT EXECUTE ON FUNCTION drop_request_months TO counterfoil_administration;
