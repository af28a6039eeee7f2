-- One row per line of a bill. Every run builds it anew, so lines of changed and removed bills need no further thought.
{{ config(materialized='table') }}

select
    lines.shop_id, lines.bill_id, lines.line, bills.business_date, bills.local_time,
    lines.product_id, lines.root_id, lines.name as product_name, lines.qty, lines.unit_price, lines.line_total,
    lines.cancelled, lines.is_tip,
    bills.status <> 'void' and not lines.cancelled and not lines.is_tip as is_sold
from {{ source('counterfoil', 'bill_items') }} as lines
join {{ source('counterfoil', 'bills') }} as bills on bills.shop_id = lines.shop_id and bills.id = lines.bill_id
