// Adds to the pages: a preview while typing, live parts, and local times.
"use strict";

function localTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!isNaN(at)) time.title = at.toLocaleString();
  }
}

// The question editor: a debounced request draws the preview.
function edit(form) {
  const place = document.getElementById("preview");
  const state = document.getElementById("preview-state");
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
    clearTimeout(timer);
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
    else if (told) told.querySelector("b").textContent = rest === 1 ? told.dataset.one : told.dataset.several.replace("#", rest);
  }

  // The button "Use this" of a way to ask: the same effect as without a script, but the page stays.
  function use(name) {
    form.elements.namedItem("randomizer").value = name;
    form.elements.namedItem("mechanism").value = "";
    keep(form);
    draw();
  }

  form.addEventListener("input", (event) => {
    changed.add(event.target.name);
    clearTimeout(timer);
    timer = setTimeout(draw, 500);
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button[name=do][value^='use:'], button[name=do][value=look]");
    if (!button) return;
    event.preventDefault();
    if (button.value !== "look") use(button.value.slice(4));
    else draw().then(() => document.getElementById("preview-title").scrollIntoView());
  });
  form.addEventListener("discard", draw);
  return draw;
}

// A plan's file is read into the form's text; without a script it is pasted there.
function readFiles(part) {
  for (const chosen of part.querySelectorAll("input[type=file][data-into]")) {
    const place = document.getElementById(chosen.dataset.into);
    const told = document.getElementById(chosen.id + "-told");
    chosen.closest("[hidden]").hidden = false;
    chosen.addEventListener("change", async () => {
      const file = chosen.files[0];
      if (!file) return;
      const fits = file.size <= Number(chosen.dataset.most);
      told.textContent = fits ? "" : "This file is too large for a plan.";
      if (!fits) return;
      place.value = await file.text();
      keep(place.form);
    });
  }
}

// Live parts: read the page again and replace the parts that have changed, except one that has the focus. A part that
// the server sends unchanged keeps its opened details and typed text.
const served = new Map();

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
      part.querySelectorAll("form[data-kept]").forEach(restore);
    }
  }
}

// Start what is in a part of the page: at first in all of it, later in the page that a form was answered with.
function begin(part, answered) {
  for (const live of part.querySelectorAll("[data-live]")) served.set(live.id, live.innerHTML);
  readFiles(part);
  localTimes(part);
  const editor = part.querySelector("#editor");
  const draw = editor ? edit(editor) : null;
  const restored = answered ? [] : Array.from(part.querySelectorAll("form[data-kept]")).filter(restore);
  if (draw && restored.includes(editor)) draw();
  const told = part.querySelector("[role=alert]");
  if (told) told.focus();
}

begin(document, false);
document.addEventListener("shown", (event) => begin(event.detail, true));

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
