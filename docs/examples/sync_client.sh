# Keeps a copy in bills/, members/ and marks.json, following docs/own-client.md. Run it once a week with --full.
# It needs bash, curl 7.76 or newer and jq.
set -euo pipefail
URL=${COUNTERFOIL_URL:-http://127.0.0.1:8000/ext/v1}
FIRST_DAY=${FIRST_DAY:-2025-01-01}  # the date of your oldest bill

get() {  # get FILE PATH NAME=VALUE...
  local file=$1 url=$URL/$2 query=() pair
  for pair in "${@:3}"; do query+=(--data-urlencode "$pair"); done
  rm -f "$file"
  curl -sSG --fail-with-body --retry 8 -H @<(echo "Authorization: Bearer $COUNTERFOIL_KEY") -o "$file" "${query[@]}" "$url"
}

pages() {  # pages PATH NAME=VALUE...: prints every page of one list; returns 3 if it is out of scope
  local cursor='' pause=${pause:-1}
  while get page.json "$@" limit=200 ${cursor:+"cursor=$cursor"}; do
    cat page.json && cursor=$(jq -r '.nextCursor // empty' page.json) || return 1
    [ -n "$cursor" ] || return 0
  done
  case $(jq -r .error page.json) in
    bad_cursor)  # start this list again, after a pause: a server may lag behind another
      sleep "$pause"
      pause=$((pause < 32 ? pause * 2 : 60)) pages "$@" ;;
    shop_not_in_scope | provider_not_in_scope) return 3 ;;
    *) return 1 ;;  # run it again later: no mark of an unfinished shop has moved
  esac
}

full_read() {  # every window, then whatever has no date
  jq -r --arg first "$FIRST_DAY" 'def day: . + "T00:00:00Z" | fromdate;
      range($first | day; (.serverTime[:10] | day) + 32 * 86400; 31 * 86400)
      | strftime("from=%Y%m%d") + " " + (. + 30 * 86400 | strftime("to=%Y%m%d"))' shops.json |
    while read -r from to; do pages transactions "shopId=$1" "$from" "$to" || exit; done &&
    pages transactions "shopId=$1" updatedSince=1970-01-01T00:00:00Z
}

merged() { jq -cn "reduce (inputs | .data[]) as \$row ({}; .[\$row.$1] = \$row) | {data: [.[]]}"; }  # merged ID: pages as one
encoded() { jq -rn --arg id "$1" '$id | @uri'; }
marks() { jq "$@" marks.json > marks.new && mv marks.new marks.json; }  # marks FILTER: rewrites marks.json

mkdir -p bills members
[ -s marks.json ] && [ "${1-}" != --full ] || echo '{}' > marks.json
get shops.json shops
new_mark=$(jq -r .serverTime shops.json)
marks --slurpfile shops shops.json '. as $old | [$shops[].data[].shopId | {(.): $old[.]}] | add // {}'  # listed shops only

jq -r '.data[].shopId' shops.json | while IFS= read -r shop; do
  file=bills/$(encoded "$shop").json mark=$(jq -r --arg shop "$shop" '.[$shop] // empty' marks.json) status=0
  if [ -n "$mark" ]; then pages transactions "shopId=$shop" "updatedSince=$mark"; else full_read "$shop"; fi > new || status=$?
  case $status in
    0)  cat ${mark:+"$file"} new | merged id > bills.new
        mv bills.new "$file"
        marks --arg shop "$shop" --arg mark "$new_mark" '.[$shop] = $mark' ;;
    3)  marks --arg shop "$shop" '.[$shop] = null' ;;
    *)  exit 1 ;;
  esac
done

jq -r '[.data[].providerId // empty] | unique[]' shops.json | while IFS= read -r base; do
  status=0
  pages members "providerId=$base" > new || status=$?
  case $status in
    0)  merged memberId < new > members.new
        mv members.new "members/$(encoded "$base").json" ;;
    3)  ;;
    *)  exit 1 ;;
  esac
done
