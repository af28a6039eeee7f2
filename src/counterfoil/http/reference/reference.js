// The reference page: its search, which shows only the parts that contain all words, and the buttons that copy samples.
"use strict";

const field = document.getElementById("search");
const count = document.getElementById("search-count");
const parts = [...document.querySelectorAll("main article, main section:not(:has(article))")];
const texts = parts.map((part) => part.textContent.toLowerCase());
const entries = [...document.querySelectorAll("#contents li")];

function isHidden(link) {
  const target = document.getElementById(link.hash.slice(1));
  return Boolean(target && target.closest("[hidden]"));
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  parts.forEach((part, number) => (part.hidden = !words.every((word) => texts[number].includes(word))));
  for (const section of document.querySelectorAll("main section:has(article)")) {
    section.hidden = !section.querySelector("article:not([hidden])");
  }
  for (const entry of entries) entry.hidden = isHidden(entry.querySelector("a"));
  for (const list of document.querySelectorAll("#contents ul")) {
    list.hidden = list.previousElementSibling.hidden = !list.querySelector("li:not([hidden])");
  }
  document.querySelector(".lead").hidden = words.length > 0;
  const shown = parts.filter((part) => !part.hidden).length;
  count.textContent = words.length ? (shown ? `${shown} of ${parts.length} parts` : "Nothing found") : "";
}

field.addEventListener("input", search);
field.closest("[hidden]").hidden = false;
// A browser may fill the field in again when it returns to the page.
search();

// Only pages from https or from this machine may write to the clipboard.
for (const sample of navigator.clipboard ? document.querySelectorAll("pre.code") : []) {
  const frame = document.createElement("div");
  const button = document.createElement("button");
  frame.className = "copyable";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(sample.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  sample.replaceWith(frame);
  frame.append(sample, button);
}
