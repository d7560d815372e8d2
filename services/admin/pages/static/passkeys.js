// Passkeys: passes the server's options to navigator.credentials and puts the answer into a field of the form.
"use strict";

function bytesOf(text) {
  const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(plain, (one) => one.charCodeAt(0));
}

function textOf(buffer) {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function readable(options) {
  const found = { ...options, challenge: bytesOf(options.challenge) };
  if (options.user) found.user = { ...options.user, id: bytesOf(options.user.id) };
  for (const name of ["allowCredentials", "excludeCredentials"]) {
    if (options[name]) found[name] = options[name].map((one) => ({ ...one, id: bytesOf(one.id) }));
  }
  return found;
}

function written(credential) {
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = textOf(credential.response[name]);
  }
  const id = textOf(credential.rawId);
  return JSON.stringify({ id, rawId: id, type: credential.type, response, clientExtensionResults: {} });
}

async function asked(form) {
  const body = form.dataset.act ? { act: form.dataset.act } : { invitation: form.elements.invitation.value.trim() };
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": form.elements.csrf.value };
  if (form.elements.revision) headers["If-Match"] = '"' + form.elements.revision.value + '"';
  const answer = await ask(form.dataset.passkey, { method: "POST", headers, body: JSON.stringify(body) });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.detail || found.title || "the server answered " + answer.status);
  return readable(found.options);
}

async function show(form) {
  const state = form.querySelector("[role=status]");
  form.setAttribute("aria-busy", "true");
  state.textContent = "Waiting for your passkey …";
  try {
    const publicKey = await asked(form);
    const made = form.dataset.act ? navigator.credentials.get({ publicKey }) : navigator.credentials.create({ publicKey });
    form.elements.passkey.value = written(await made);
    state.textContent = "";
    form.removeAttribute("aria-busy");
    await send(form, null);
  } catch (error) {
    state.textContent = words(error);
    form.removeAttribute("aria-busy");
  }
}

function words(error) {
  if (["NotAllowedError", "InvalidStateError"].includes(error.name)) return "No passkey was used, and nothing was done.";
  const why = error instanceof TypeError ? "the server cannot be reached" : error.message;
  return "Nothing was done: " + why + (why.endsWith(".") ? "" : ".");
}

// Live parts are replaced together with their forms, so the listener is on the page and not on each form.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-passkey]")) return;
  event.preventDefault();
  if (!form.hasAttribute("aria-busy")) show(form);
});
