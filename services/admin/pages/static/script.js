// Adds to the pages: a preview while typing, live parts, local times, and a notice while the server cannot be reached.
"use strict";

const offline = document.getElementById("offline");

async function ask(url, options) {
  try {
    const answer = await fetch(url, { credentials: "same-origin", ...options });
    offline.hidden = true;
    return answer;
  } catch (error) {
    if (error.name !== "AbortError") offline.hidden = false;
    throw error;
  }
}

function localTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!isNaN(at)) time.title = at.toLocaleString();
  }
}

// The question editor: a debounced request draws the preview; what is typed is kept in this tab until it is saved.
function edit(form) {
  const place = document.getElementById("preview");
  const state = document.getElementById("preview-state");
  const key = "tacit:" + form.dataset.kept;
  const changed = new Set();
  let timer = 0;
  let asked = null;

  function typed() {
    const data = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (typeof value === "string") data.append(name, value);
    }
    return data;
  }

  async function draw() {
    if (asked) asked.abort();
    asked = new AbortController();
    const mine = asked;
    state.textContent = "computing …";
    place.setAttribute("aria-busy", "true");
    try {
      const answer = await ask(form.dataset.preview, { method: "POST", body: typed(), signal: mine.signal });
      const text = await answer.text();
      if (mine !== asked) return;
      if (answer.ok) {
        place.innerHTML = text;
        mark(place.querySelectorAll("[data-field]"));
        state.textContent = "";
      } else if (answer.status === 401) {
        state.textContent = "Your session has ended. What you typed is kept in this tab: save, sign in, and it will be here again.";
      } else {
        state.textContent = "No preview: the server answered " + answer.status + ".";
      }
    } catch (error) {
      if (mine === asked && error.name !== "AbortError") state.textContent = "No preview while the server cannot be reached.";
    } finally {
      if (mine === asked) place.removeAttribute("aria-busy");
    }
  }

  function mark(notes) {
    const wrong = new Set(Array.from(notes, (note) => note.dataset.field));
    for (const field of form.elements) {
      if (field.name && wrong.has(field.name)) {
        field.setAttribute("aria-invalid", "true");
        field.closest("details")?.setAttribute("open", "");
      } else {
        field.removeAttribute("aria-invalid");
        if (changed.has(field.name)) untell(field);
      }
    }
  }

  // What the server said of a field when it refused the form no longer holds once the field was changed and is right.
  function untell(field) {
    const words = document.getElementById(field.id + "-h");
    if (words?.classList.contains("wrong")) words.hidden = true;
    const link = document.querySelector('.alert a[href="#' + field.id + '"]');
    const told = link?.closest(".alert");
    link?.closest("li").remove();
    const rest = told?.querySelectorAll("li").length;
    if (rest === 0) told.remove();
    else if (told) told.querySelector("b").textContent = rest === 1 ? "One field is wrong." : rest + " fields are wrong.";
  }

  // The button "Use this" of a way to ask: the same effect as without a script, but the page stays.
  function use(name) {
    form.elements.namedItem("randomizer").value = name;
    form.elements.namedItem("mechanism").value = "";
    keep();
    draw();
  }

  function keep() {
    const data = typed();
    data.delete("csrf");
    data.delete("once");
    sessionStorage.setItem(key, data.toString());
  }

  function restore() {
    const kept = sessionStorage.getItem(key);
    if (kept === null) return;
    let changed = false;
    for (const [name, value] of new URLSearchParams(kept)) {
      const field = form.elements.namedItem(name);
      if (field && "value" in field && field.type !== "hidden" && field.value !== value) {
        field.value = value;
        changed = true;
      }
    }
    if (changed) {
      draw().then(() => { if (!state.textContent) state.textContent = "What you typed before has been restored."; });
    }
  }

  form.addEventListener("input", (event) => {
    changed.add(event.target.name);
    keep();
    clearTimeout(timer);
    timer = setTimeout(draw, 500);
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button[name=do][value^='use:']");
    if (!button) return;
    event.preventDefault();
    use(button.value.slice(4));
  });
  form.addEventListener("submit", () => sessionStorage.setItem("tacit-sent", key));
  sessionStorage.removeItem("tacit-sent");
  restore();
}

// The kept text of a form is removed once the form was sent and accepted; a sign-in or a refusal in between keeps it.
function forget() {
  const sent = sessionStorage.getItem("tacit-sent");
  if (sent !== null) sessionStorage.removeItem(sent);
  sessionStorage.removeItem("tacit-sent");
}

// Live parts: read the page again and replace the parts that have changed, except one that has the focus. A part that
// the server sends unchanged keeps its opened details and typed text.
const served = new Map();
for (const part of document.querySelectorAll("[data-live]")) served.set(part.id, part.innerHTML);

async function refresh() {
  const answer = await ask(location.href, { headers: { "X-Tacit-By-Itself": "1" } });
  if (answer.redirected) document.getElementById("ended").hidden = false;
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = page.getElementById(part.id);
    if (next && !part.contains(document.activeElement) && next.innerHTML !== served.get(part.id)) {
      served.set(part.id, next.innerHTML);
      part.replaceChildren(...next.childNodes);
      localTimes(part);
    }
  }
}

// A plan's file is read into the form's text; without a script it is pasted there.
for (const chosen of document.querySelectorAll("input[type=file][data-into]")) {
  const place = document.getElementById(chosen.dataset.into);
  const told = document.getElementById(chosen.id + "-told");
  chosen.closest("[hidden]").hidden = false;
  chosen.addEventListener("change", async () => {
    const file = chosen.files[0];
    if (!file) return;
    const fits = file.size <= Number(chosen.dataset.most);
    told.textContent = fits ? "" : "This file is too large for a plan.";
    if (fits) place.value = await file.text();
  });
}

const editor = document.getElementById("editor");
if (editor) edit(editor);
else if (document.querySelector(".account")) forget();
localTimes(document);

// Live parts are read again when the server reports a change, at most once a second; without the stream, every 15 s.
if (document.querySelector("[data-live]")) {
  let due = 0;
  const soon = () => {
    clearTimeout(due);
    due = setTimeout(() => refresh().catch(() => {}), 1000);
  };
  const events = new EventSource("/v1/events");
  events.addEventListener("question", soon);
  events.addEventListener("recipe", soon);
  if (document.getElementById("live-fleet")) events.addEventListener("fleet", soon);
  events.addEventListener("open", () => { offline.hidden = true; });
  events.addEventListener("error", () => {
    if (events.readyState !== EventSource.OPEN) ask("/healthz").catch(() => {});
  });
  setInterval(() => {
    if (!document.hidden && events.readyState !== EventSource.OPEN) refresh().catch(() => {});
  }, 15000);
  addEventListener("pagehide", () => events.close());
}
window.addEventListener("offline", () => { offline.hidden = false; });
window.addEventListener("online", () => { ask("/healthz").catch(() => {}); });
const told = document.querySelector("[role=alert]");
if (told) told.focus();
