-- One row per bill. Each run reads only the bills that were written since the last run, and deletes removed ones.
{{ config(
    materialized='incremental',
    unique_key=['shop_id', 'id'],
    incremental_strategy='delete+insert',
    post_hook="delete from {{ this }} where (shop_id, id) in (select shop_id, id from {{ source('counterfoil', 'removed_bills') }})"
) }}

select
    shop_id, id, timestamp, local_time, business_date, channel_code, service_type, status,
    member_id is not null as has_member, net, tip, revenue, copied_at
from {{ source('counterfoil', 'bills') }}
{% if is_incremental() %}
-- Several runs of `pull` can write rows with the same time.
where copied_at >= (select coalesce(max(copied_at), '1970-01-01') from {{ this }})
{% endif %}
