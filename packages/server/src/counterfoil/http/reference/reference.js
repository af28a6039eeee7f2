// The reference page: its search, which shows only the parts that contain all words, and the buttons that copy samples.
"use strict";

const field = document.getElementById("search");
const count = document.getElementById("search-count");
const contents = document.querySelector("#contents .fold");
const folds = [...document.querySelectorAll("main .fold")];
const parts = [...document.querySelectorAll("main article, main section:not(:has(article))")];
const texts = parts.map((part) => part.textContent.toLowerCase());
const isWide = matchMedia("(min-width: 64rem)").matches;
// Older browsers do not mark what was found.
const [found, place] = ["found", "place"].map((name) => {
  const ranges = window.Highlight ? new Highlight() : new Set();
  if (CSS.highlights) CSS.highlights.set(name, ranges);
  return ranges;
});
const MOST_PLACES = 1000;

function isHidden(link) {
  const target = document.getElementById(link.hash.slice(1));
  return Boolean(target && target.closest("[hidden]"));
}

function mark(words) {
  found.clear();
  place.clear();
  for (const part of parts.filter((part) => !part.hidden)) {
    const nodes = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (nodes.nextNode() && found.size < MOST_PLACES) {
      const text = nodes.currentNode.data.toLowerCase();
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(nodes.currentNode, at);
          range.setEnd(nodes.currentNode, at + word.length);
          found.add(range);
        }
      }
    }
  }
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  parts.forEach((part, number) => (part.hidden = !words.every((word) => texts[number].includes(word))));
  for (const section of document.querySelectorAll("main section:has(article)")) {
    section.hidden = !section.querySelector("article:not([hidden])");
  }
  document.querySelector(".lead").hidden = words.length > 0;
  for (const list of contents.querySelectorAll("ul")) {
    const entries = [...list.children];
    for (const entry of entries) entry.hidden = isHidden(entry.querySelector("a"));
    list.hidden = list.previousElementSibling.hidden = entries.every((entry) => entry.hidden);
  }
  for (const fold of folds) fold.open = isWide || (words.length > 0 && !fold.closest("[hidden]"));
  mark(words);
  const shown = parts.filter((part) => !part.hidden).length;
  if (!words.length) count.textContent = "";
  else count.textContent = shown ? `${shown} of ${parts.length} parts; Enter: next place` : `Nothing found for ${field.value.trim()}`;
}

// Enter leads from one place to the next.
function showNextPlace() {
  // The samples in other languages are not shown.
  const shown = [...found].filter((range) => range.getClientRects().length);
  const next = shown[(shown.indexOf([...place][0]) + 1) % shown.length];
  if (!next) return;
  place.clear();
  place.add(next);
  scrollBy({ top: next.getBoundingClientRect().top - innerHeight / 3 });
}

// Open the part that a link leads to, and leave the contents.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && (target.querySelector(":scope > .fold") || target.closest("main .fold"));
  if (fold) fold.open = true;
  if (target) target.scrollIntoView();
}

field.addEventListener("input", search);
field.addEventListener("keydown", (event) => event.key === "Enter" && showNextPlace());
field.closest("[hidden]").hidden = false;
contents.addEventListener("click", (event) => event.target.closest("a") && !isWide && (contents.open = false));
addEventListener("hashchange", openTarget);
contents.open = isWide;
// A browser may fill the field in again when it returns to the page.
search();
openTarget();

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
