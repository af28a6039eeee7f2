"""The code samples of the reference. `%name` is replaced by a value."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

# The parameters of the examples, by operation and mode. Other operations have one example, with what they require.
MODES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "listTransactions": {"By change": ["shopId", "updatedSince", "limit"], "By day": ["shopId", "from", "to", "limit"]},
    "listMembers": {"": ["providerId", "limit"]},
}

# Samples for the client by operation, with the title of the mode if there are several.
CLIENT = {
    "listShops": """\
page = api.shop_page()
for shop in page.data:
    print(shop["shopId"], shop["providerId"])
print(page.server_time)""",
    "listTransactions By change": """\
for bill in api.bills(%shopId, updated_since=%updatedSince):
    print(bill["id"], bill["amounts"]["net"])""",
    "listTransactions By day": """\
for bill in api.bills(%shopId, first=%first, last=%last):
    print(bill["id"], bill["amounts"]["net"])""",
    "getTransaction": """\
bill = api.bill(%id)
print(bill["status"], bill["amounts"]["net"])""",
    "listChanges": """\
for page in api.change_pages():  # in later passes: since=mark
    for change in page.data:
        print(change["type"], change["shopId"])
print(page.mark)  # store the mark after you have stored all changes""",
    "listDigests": """\
for page in api.digest_pages():
    for digest in page.data:
        print(digest["shopId"], digest["day"], digest["bills"], digest["net"])""",
    "listMembers": """\
for member in api.members(%providerId):
    print(member["memberId"], member["points"])""",
    "getMember": """\
member = api.member(%id)
print(member["rankName"], member["points"])""",
    "lookupMember": """\
token = api.lookup(
    %providerId,
    %messagingUserId,
)
print(token)""",
    "getUsage": 'print(api.usage()["today"])',
}
# The sample of an operation that is not named above.
ANY_OPERATION = """\
response = api.send(Call(%arguments))
print(response.body)"""


class SampleLanguage(Struct, frozen=True, kw_only=True):
    """A language in which every operation has the same sample.

    A line with `%query` is left out of a request without parameters, and one with `Bearer` out of a request without a
    key.
    """

    label: str
    language: str
    """As highlighters name it."""
    pair: str
    """One parameter."""
    data: str
    """What reads the `data` of a response."""
    one_response: str
    pages: str


HTTPX = SampleLanguage(
    label="httpx",
    language="python",
    pair='"%name": %value',
    data='["data"]',
    one_response="""\
import os
import httpx

response = httpx.get(
    f"{os.environ['BASE']}/%path",
    params={%query},
    headers={"Authorization": f"Bearer {os.environ['KEY']}"},
)
response.raise_for_status()
print(response.json()%data)""",
    pages="""\
import os
import httpx

query = {%query}
http = httpx.Client(
    base_url=os.environ["BASE"],
    headers={"Authorization": f"Bearer {os.environ['KEY']}"},
)
with http:
    while True:
        response = http.get("%path", params=query)
        page = response.raise_for_status().json()
        for row in page["data"]:
            print(row)
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]""",
)
JAVASCRIPT = SampleLanguage(
    label="JavaScript",
    language="js",
    pair="%name: %value",
    data=".data",
    one_response="""\
const url = new URL(`${process.env.BASE}/%path`);
url.search = new URLSearchParams({ %query });
const response = await fetch(url, {
  headers: { Authorization: `Bearer ${process.env.KEY}` },
});
const body = await response.json();
if (!response.ok) throw new Error(JSON.stringify(body));
console.log(body%data);""",
    pages="""\
const url = new URL(`${process.env.BASE}/%path`);
const query = new URLSearchParams({ %query });
const headers = { Authorization: `Bearer ${process.env.KEY}` };
for (;;) {
  url.search = query;
  const response = await fetch(url, { headers });
  const page = await response.json();
  if (!response.ok) throw new Error(JSON.stringify(page));
  for (const row of page.data) console.log(row);
  if (page.nextCursor === null) break;
  query.set("cursor", page.nextCursor);
}""",
)
PHP = SampleLanguage(
    label="PHP",
    language="php",
    pair='"%name" => %value',
    data='["data"]',
    one_response="""\
<?php
$url = getenv("BASE") . "/%path";
$url .= "?" . http_build_query([%query]);
$curl = curl_init($url);
curl_setopt_array($curl, [
    CURLOPT_HTTPHEADER => ["Authorization: Bearer " . getenv("KEY")],
    CURLOPT_RETURNTRANSFER => true,
]);
$body = curl_exec($curl);
if (curl_getinfo($curl, CURLINFO_RESPONSE_CODE) !== 200) {
    throw new Exception($body ?: curl_error($curl));
}
print_r(json_decode($body, true)%data);""",
    pages="""\
<?php
$query = [%query];
$curl = curl_init();
curl_setopt_array($curl, [
    CURLOPT_HTTPHEADER => ["Authorization: Bearer " . getenv("KEY")],
    CURLOPT_RETURNTRANSFER => true,
]);
do {
    $url = getenv("BASE") . "/%path?" . http_build_query($query);
    curl_setopt($curl, CURLOPT_URL, $url);
    $body = curl_exec($curl);
    if (curl_getinfo($curl, CURLINFO_RESPONSE_CODE) !== 200) {
        throw new Exception($body ?: curl_error($curl));
    }
    $page = json_decode($body, true);
    foreach ($page["data"] as $row) {
        print_r($row);
    }
    $query["cursor"] = $page["nextCursor"];
} while ($query["cursor"] !== null);""",
)
C_SHARP = SampleLanguage(
    label="C#",
    language="csharp",
    pair='["%name"] = %value',
    data='.GetProperty("data")',
    one_response="""\
using System.Text.Json;

string Variable(string name) => Environment.GetEnvironmentVariable(name)!;
var http = new HttpClient();
http.DefaultRequestHeaders.Add("Authorization", "Bearer " + Variable("KEY"));
var url = Variable("BASE") + "/%path";
url += "?%query_string";
var body = JsonDocument.Parse(await http.GetStringAsync(url)).RootElement;
Console.WriteLine(body%data);""",
    pages="""\
using System.Text.Json;

string Variable(string name) => Environment.GetEnvironmentVariable(name)!;
var http = new HttpClient();
http.DefaultRequestHeaders.Add("Authorization", "Bearer " + Variable("KEY"));
var query = new Dictionary<string, string> { %query };
while (true)
{
    var encoded = await new FormUrlEncodedContent(query).ReadAsStringAsync();
    var url = Variable("BASE") + "/%path?" + encoded;
    var page = JsonDocument.Parse(await http.GetStringAsync(url)).RootElement;
    foreach (var row in page.GetProperty("data").EnumerateArray())
        Console.WriteLine(row);
    var cursor = page.GetProperty("nextCursor").GetString();
    if (cursor is null) break;
    query["cursor"] = cursor;
}""",
)
LANGUAGES = (HTTPX, JAVASCRIPT, PHP, C_SHARP)
