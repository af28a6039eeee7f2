// Sends the requests of the "Try it" forms of the demo's reference page, and shows the responses.
"use strict";

const keys = [...document.querySelectorAll("#demo-keys [data-key]")].map((row) => row.dataset);

function addText(parent, name, text, className) {
  const child = document.createElement(name);
  child.textContent = text;
  if (className) child.className = className;
  parent.append(child);
  return child;
}

function address(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll("input")) {
    if (input.dataset.in === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "") query.set(input.name, input.value);
  }
  return query.size ? `${path}?${query}` : path;
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function send(form) {
  const select = form.querySelector("select");
  const headers = select ? { Authorization: `Bearer ${select.value}` } : {};
  const result = form.querySelector(".result");
  const url = address(form);
  const started = performance.now();
  result.replaceChildren();
  try {
    const response = await fetch(url, { headers, cache: "no-store" });
    const body = await response.text();
    const took = Math.round(performance.now() - started);
    addText(result, "p", `GET ${url}`, "muted");
    addText(result, "p", `${response.status} ${response.statusText} in ${took} ms`, response.ok ? "badge" : "badge bad");
    addText(result, "pre", readable(body), "code").tabIndex = 0;
    addText(result, "pre", [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n"), "code");
  } catch (error) {
    addText(result, "p", `The request failed: ${error.message}`, "badge bad");
  }
}

for (const form of document.querySelectorAll("form.try")) {
  const select = form.querySelector("select");
  for (const { purpose, key } of select ? keys : []) {
    select.add(new Option(purpose, key, false, purpose === form.dataset.purpose));
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
  form.hidden = false;
}
