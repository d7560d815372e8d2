// Forms: what is typed is kept in this tab until the server has it, and a form is sent without leaving its page, so that
// a server that is away, or refuses, costs nobody what they wrote. Without scripts, browsers send the forms themselves.
"use strict";

const offline = document.getElementById("offline");
const BEHIND = new Set([502, 504]);  // what a proxy answers while the server behind it is away
const PATIENCE = 60000;

async function ask(url, options) {
  try {
    const answer = await fetch(url, { credentials: "same-origin", ...options });
    offline.hidden = !BEHIND.has(answer.status);
    return answer;
  } catch (error) {
    if (error.name !== "AbortError") offline.hidden = false;
    throw error;
  }
}

// The fields that are kept: what a person writes or chooses, but no password, key or invitation.
function keptFields(form) {
  return Array.from(form.elements).filter((one) =>
    one.name && "value" in one && one.tagName !== "BUTTON" && !["hidden", "password", "file"].includes(one.type));
}

function placeOf(form) {
  return "tacit:" + form.dataset.kept;
}

function keep(form) {
  const fields = keptFields(form).map((one) => [one.name, one.value]);
  try {
    sessionStorage.setItem(placeOf(form), JSON.stringify({ revision: form.elements.revision?.value, fields }));
  } catch {
    document.getElementById("kept").hidden = true;  // the browser keeps nothing for pages
  }
}

function forget(form) {
  if (form.dataset.kept) sessionStorage.removeItem(placeOf(form));
}

function keptOf(form) {
  try {
    return JSON.parse(sessionStorage.getItem(placeOf(form)));
  } catch {
    return null;
  }
}

// Lines as the server stores them, to compare what was typed with what it shows.
function stored(text) {
  return text.replaceAll("\r\n", "\n").trim();
}

// What the server sent as a field's value, whatever stands in it now.
function servedIn(field) {
  if (field.tagName !== "SELECT") return field.defaultValue;
  return (Array.from(field.options).find((one) => one.defaultSelected) ?? field.options[0]).value;
}

// Fill in what was typed here before. Returns whether any of it differs from what the server has.
function restore(form) {
  const kept = keptOf(form);
  if (kept === null) return false;
  const typed = new Map(kept.fields);
  const changed = keptFields(form).filter((one) => typed.has(one.name) && stored(servedIn(one)) !== stored(typed.get(one.name)));
  for (const field of changed) {
    field.value = typed.get(field.name);
    field.closest("details")?.setAttribute("open", "");
  }
  if (!changed.length) {
    forget(form);
    return false;
  }
  const told = form.querySelector("[data-restored]");
  told.hidden = false;
  told.querySelector("[data-newer]").hidden = kept.revision === form.elements.revision?.value;
  told.querySelector("button").addEventListener("click", () => {
    forget(form);
    form.reset();
    told.hidden = true;
    form.dispatchEvent(new Event("discard"));
  });
  return true;
}

// What became of an attempt to send the form, below it.
function tell(form, words) {
  let told = form.querySelector("[data-told]");
  if (!words) {
    told?.remove();
    return;
  }
  if (!told) {
    told = document.createElement("p");
    told.className = "alert";
    told.setAttribute("role", "alert");
    told.dataset.told = "";
    const buttons = form.querySelector(".actions");
    if (buttons) buttons.after(told);
    else form.append(told);
  }
  told.textContent = words + " This page is as you left it" + (form.dataset.kept ? ", and what you typed is kept." : ".");
}

function failure(error) {
  const why = error.name === "TimeoutError" ? "has not answered for a minute" : "cannot be reached";
  return "The server " + why + ". Try again once it is back.";
}

async function send(form, button) {
  if (form.hasAttribute("aria-busy")) return;
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (typeof value === "string") body.append(name, value);
  }
  if (button?.name) body.append(button.name, button.value);
  form.setAttribute("aria-busy", "true");
  tell(form, "");
  try {
    const answer = await ask(form.action, { method: "POST", body, signal: AbortSignal.timeout(PATIENCE) });
    settle(form, answer, new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch (error) {
    tell(form, failure(error));
  } finally {
    form.removeAttribute("aria-busy");
  }
}

// Go on as a browser would have: where the server leads, or to the page that it answered with. A refusal that is a page
// of its own is only told.
function settle(form, answer, page) {
  const main = page.getElementById("main");
  const onward = page.querySelector("meta[http-equiv=refresh]");
  const refusal = main?.querySelector("[data-refusal]");
  if (answer.redirected) {
    if (new URL(answer.url).pathname !== "/sign-in") forget(form);
    location.assign(answer.url);
  } else if (onward) {
    location.assign(onward.content.replace(/^0; url=/, ""));
  } else if (refusal) {
    tell(form, Array.from(refusal.children, (one) => one.textContent.trim()).join(" "));
  } else if (main) {
    const shown = document.getElementById("main");
    shown.replaceChildren(...main.childNodes);
    document.title = page.title;
    document.dispatchEvent(new CustomEvent("shown", { detail: shown }));
  } else {
    tell(form, "The server answered " + answer.status + ".");
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post" || form.matches("[data-passkey]")) return;
  event.preventDefault();
  send(form, event.submitter);
});
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form?.dataset.kept) keep(form);
});
if (document.querySelector("form[data-kept]")) document.getElementById("kept").hidden = false;
window.addEventListener("offline", () => { offline.hidden = false; });
window.addEventListener("online", () => { ask("/healthz").catch(() => {}); });
setInterval(() => {
  if (!offline.hidden && !document.hidden) ask("/healthz").catch(() => {});
}, 5000);
