// The search of the reference page: shows only the parts that contain all words.
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
  const shown = parts.filter((part) => !part.hidden).length;
  count.textContent = words.length ? `${shown} of ${parts.length} parts` : "";
}

field.addEventListener("input", search);
field.closest("[hidden]").hidden = false;
// A browser may fill the field in again when it returns to the page.
search();
