-- One row per shop and business day, with the shop's name and whether its figures are still updated.
{{ config(materialized='table') }}

select
    bills.shop_id, shops.shop_name, shops.in_scope, bills.business_date,
    count(case when bills.status <> 'void' then 1 end) as bills,
    count(case when bills.status = 'void' then 1 end) as voids,
    sum(bills.revenue) as revenue,
    sum(case when bills.has_member then bills.revenue else 0 end) as revenue_of_members
from {{ ref('fct_bills') }} as bills
join {{ source('counterfoil', 'shops') }} as shops on shops.shop_id = bills.shop_id
group by bills.shop_id, shops.shop_name, shops.in_scope, bills.business_date
