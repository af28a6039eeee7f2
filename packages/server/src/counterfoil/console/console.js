// The live parts of the console. Every page works without this script.
"use strict";

// This header marks requests that the script makes by itself. They do not keep a session alive.
const BACKGROUND = { Accept: "text/html", "X-Background-Refresh": "1" };

// A sign-in link has its token in the fragment, which browsers do not send, so this script sends it.
const signIn = document.getElementById("sign-in");
if (signIn && location.hash.length > 1) {
  signIn.elements.link.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  signIn.submit();
}

// The page of a new key: copy the key on request, and remove it when the operator leaves the page, so that Back cannot show it.
const secret = document.getElementById("revealed");
if (secret) {
  for (const copy of navigator.clipboard ? document.querySelectorAll("[data-copies]") : []) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(copy.dataset.copies).textContent);
      copy.nextElementSibling.textContent = copy.dataset.done;
    });
  }
  addEventListener("pagehide", () => secret.remove());
}

// Buttons that copy an ID.
if (navigator.clipboard) document.documentElement.classList.add("can-copy");
addEventListener("click", async (event) => {
  const copy = event.target instanceof Element ? event.target.closest(".copy") : null;
  if (!copy) return;
  await navigator.clipboard.writeText(copy.dataset.text);
  copy.textContent = copy.dataset.done;
});

// The key "/" leads to the search field.
const find = document.getElementById("find");
if (find) {
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    event.preventDefault();
    find.focus();
  });
}

// A phone number, an email address or a member's token must not get into an address, so it is sent like a form.
const PERSONAL = /@|^m1_|^\+|^0[689][0-9]?[- ]?[0-9]{3,4}[- ]?[0-9]{4}$/;
addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".find") || !PERSONAL.test(form.elements.q.value.trim())) return;
  form.method = "post";
  form.action = "/find/customer";
  form.elements.q.name = "who";
});

// Filter the rows on the page while the operator types. Enter lets the console filter all rows.
addEventListener("input", (event) => {
  const form = event.target.closest(".filter");
  if (!form) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...form.nextElementSibling.tBodies[0].rows];
  for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  const status = form.querySelector("[role=status]");
  status.textContent = rows.some((row) => !row.hidden) ? "" : status.dataset.none;
});

// Charts: a tooltip for the bar that is pointed at, has the focus or was tapped. A second tap follows its link.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
// A screen reader reads the label of the bar instead.
tip.ariaHidden = "true";
document.body.append(tip);
const barOf = (event) => (event.target instanceof Element ? event.target.closest(".slot") : null);
const showTip = (bar) => {
  tip.hidden = !bar;
  if (!bar) return;
  // The browser would show the title too.
  const title = bar.querySelector("title");
  if (title) {
    bar.dataset.tip = title.textContent;
    title.remove();
  }
  tip.textContent = bar.dataset.tip;
  const box = bar.getBoundingClientRect();
  const half = tip.offsetWidth / 2 + 8;
  tip.style.left = `${Math.max(half, Math.min(innerWidth - half, box.left + box.width / 2))}px`;
  tip.style.top = `${box.top}px`;
};
let tapped = null;
let isTouch = false;
addEventListener("pointerdown", (event) => (isTouch = event.pointerType === "touch"));
addEventListener("pointerover", (event) => event.pointerType !== "touch" && showTip(barOf(event)));
addEventListener("focusin", (event) => showTip(barOf(event)));
addEventListener("scroll", () => showTip(null), { passive: true });
addEventListener("click", (event) => {
  const bar = barOf(event);
  if (bar && isTouch && bar !== tapped) event.preventDefault();
  tapped = bar;
  showTip(bar);
});
// The arrow keys lead to the bars beside the one with the focus.
addEventListener("keydown", (event) => {
  const bar = barOf(event);
  const side = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
  const next = bar && side ? bar[side] : null;
  if (!next || !next.matches("a.slot")) return;
  event.preventDefault();
  bar.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

// The role above a column leads to its reasons, which are folded.
addEventListener("click", (event) => {
  const role = event.target instanceof Element ? event.target.closest(".role") : null;
  if (role) document.querySelector(role.hash).closest("details").open = true;
});

// The export menu closes when the operator goes on elsewhere.
const closeExport = (event) => {
  const menu = document.querySelector(".export[open]");
  if (!menu) return;
  if (event.type === "keydown" ? event.key === "Escape" : !menu.contains(event.target)) menu.open = false;
};
for (const kind of ["click", "focusin", "keydown"]) addEventListener(kind, closeExport);

// Say that the next page is on its way. A download does not leave the page.
addEventListener("beforeunload", () => {
  document.body.classList.add("loading");
  setTimeout(() => document.body.classList.remove("loading"), 8000);
});

// Update a page whose figures change, unless the operator is doing something on it.
const refreshed = document.querySelector("[data-refresh]");
if (refreshed) {
  const timer = setInterval(async () => {
    const page = document.getElementById("page");
    const isUsed = page.contains(document.activeElement) || page.querySelector("details[open]") || !tip.hidden;
    if (isUsed || document.visibilityState !== "visible" || String(getSelection())) return;
    const answer = await fetch(location.href, { headers: BACKGROUND }).catch(() => null);
    // What the page showed is gone, such as a file when the console starts again. The page says so.
    if (answer && answer.status === 404) return location.reload();
    if (!answer || !answer.ok) return;
    // A redirect to the sign-in page means that the session has ended.
    if (answer.redirected) return clearInterval(timer);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("page");
    if (fresh) page.replaceWith(fresh);
    if (fresh && !fresh.dataset.refresh) clearInterval(timer);
  }, refreshed.dataset.refresh * 1000);
}

// Reload a page that the browser restores from its cache, because the session may have ended in the meantime.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

// The banner about the service: ask every five seconds whether the service is ready, while the page is visible.
const service = document.getElementById("service");
if (service) {
  const show = (text, kind) => {
    const line = document.createElement("p");
    line.className = `notice ${kind}`;
    line.textContent = text;
    service.replaceChildren(line);
  };
  let wasDown = Boolean(service.dataset.down);
  let wasLost = false;
  let isAsking = false;
  const ask = async () => {
    if (isAsking || document.visibilityState !== "visible") return;
    isAsking = true;
    const answer = await fetch(service.dataset.address, { headers: BACKGROUND }).catch(() => null);
    const text = answer && answer.ok ? await answer.text().catch(() => null) : null;
    isAsking = false;
    // A redirect to the sign-in page means that the session has ended.
    if (answer && answer.redirected) return clearInterval(timer);
    if (text === null) {
      if (!wasLost) show(service.dataset.lost, "bad");
      wasLost = true;
      return;
    }
    const isDown = text !== "";
    if (isDown && (!wasDown || wasLost)) {
      service.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.children);
    } else if (!isDown && wasDown) {
      show(service.dataset.again, "good");
    } else if (!isDown && wasLost) {
      service.replaceChildren();
    }
    wasDown = isDown;
    wasLost = false;
  };
  const timer = setInterval(ask, 5000);
}

// Follow live: fetch the same list every two seconds, and update the page if the list has changed.
const follow = document.getElementById("follow");
if (follow) {
  const state = document.getElementById("follow-status");
  const start = follow.textContent;
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    follow.textContent = start;
    state.textContent = "";
  };
  let isAsking = false;
  const refresh = async () => {
    if (isAsking) return;
    isAsking = true;
    const answer = await fetch(location.href, { headers: BACKGROUND }).catch(() => null);
    isAsking = false;
    if (!timer) return;
    // A redirect to the sign-in page means that the session has ended.
    if (answer && answer.redirected) return location.reload();
    const text = answer && answer.ok ? state.dataset.text : state.dataset.lost;
    if (state.textContent !== text) state.textContent = text;
    if (answer && answer.ok) show(await answer.text());
  };
  const show = (page) => {
    const fresh = new DOMParser().parseFromString(page, "text/html").getElementById("list");
    const shown = document.getElementById("list");
    if (!fresh || fresh.textContent === shown.textContent) return;
    const known = new Set(Array.from(shown.querySelectorAll("tbody tr"), (row) => row.textContent));
    for (const row of fresh.querySelectorAll("tbody tr")) {
      if (!known.has(row.textContent)) row.className = "new";
    }
    shown.replaceWith(fresh);
  };
  follow.parentElement.hidden = false;
  follow.addEventListener("click", () => {
    if (timer) return stop();
    timer = setInterval(refresh, 2000);
    follow.textContent = follow.dataset.stop;
    state.textContent = state.dataset.text;
    refresh();
  });
}

// Bring in a file: it can be dropped, and its size and the progress are shown. Without this script, the form sends it.
const drop = document.querySelector(".drop");
if (drop) {
  const files = drop.elements.files;
  const chosen = drop.querySelector(".chosen");
  const shown = (bytes) => `${(bytes / 1048576).toFixed(bytes < 10485760 ? 1 : 0)} MB`;
  const showChosen = () => {
    const list = [...files.files];
    const bytes = list.reduce((sum, file) => sum + file.size, 0);
    const isLarge = bytes > Number(drop.dataset.most);
    files.setCustomValidity(isLarge ? drop.dataset.large : "");
    chosen.textContent = isLarge ? drop.dataset.large : list.length ? `${list.map((file) => file.name).join(", ")} (${shown(bytes)})` : "";
  };
  files.addEventListener("change", showChosen);
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    files.files = event.dataTransfer.files;
    showChosen();
  });
  drop.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = drop.querySelector("button");
    const request = new XMLHttpRequest();
    const stop = (text) => {
      chosen.textContent = text;
      button.disabled = false;
    };
    request.upload.addEventListener("progress", (progress) => {
      const share = Math.floor((100 * progress.loaded) / progress.total);
      chosen.textContent = share < 100 ? `${drop.dataset.sending} … ${share} %` : `${drop.dataset.reading} …`;
    });
    request.addEventListener("error", () => stop(drop.dataset.cut));
    request.addEventListener("load", () => {
      // A refusal is a page that says why.
      if (request.status < 400) return location.assign(request.responseURL);
      const refusal = new DOMParser().parseFromString(request.responseText, "text/html");
      const reason = refusal.querySelector("#page .notice.bad") || refusal.querySelector(".problem p");
      stop(reason ? reason.textContent : String(request.status));
    });
    button.disabled = true;
    request.open("POST", drop.getAttribute("action"));
    request.setRequestHeader("Accept", "text/html");
    request.send(new FormData(drop));
  });
}
