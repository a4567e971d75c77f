/* Sends the answer of the logged-in person to Airflow's own endpoint, with the digest of the dossier on this page. */
"use strict";
(function () {
  const form = document.getElementById("answer");
  const said = document.getElementById("said");
  if (!form || !said) return;

  function tell(key, detail, bad) {
    const words = form.querySelector(`template[data-say="${key}"]`);
    const copy = words.content.cloneNode(true);
    const walker = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      walker.currentNode.nodeValue = walker.currentNode.nodeValue.replace("{detail}", () => detail || "");
    }
    said.replaceChildren(copy);
    said.className = bad ? "bad" : "good";
  }

  function missing(choice) {
    if (!form.reason.value.trim()) return ["need_reason", form.reason];
    const acknowledged = form.acknowledged;
    if (choice === "Approve" && acknowledged && !acknowledged.checked) return ["need_ack", acknowledged];
    const outcomes = form.elements.outcome;
    if (choice === "Approve" && outcomes && !outcomes.value) return ["need_outcome", outcomes[0]];
    return null;
  }

  function answer(choice) {
    const input = { dossier_digest: form.dataset.digest, reason: form.reason.value.trim() };
    if (form.acknowledged) input.acknowledge = form.acknowledged.checked;
    if (form.elements.outcome) input.outcome = form.elements.outcome.value || null;
    return { chosen_options: [choice], params_input: input };
  }

  async function wordsOf(response) {
    try {
      const detail = (await response.json()).detail;
      return typeof detail === "string" ? detail : JSON.stringify(detail);
    } catch (error) {
      return String(response.status);
    }
  }

  const pause = (milliseconds) => new Promise((resume) => window.setTimeout(resume, milliseconds));

  async function answers() {
    const response = await fetch(form.dataset.state, { credentials: "same-origin", cache: "no-store" });
    return response.ok ? response.json() : null;
  }

  async function untilRecorded(before) {
    for (let tries = 0; tries < 60; tries += 1) {
      await pause(2000);
      const now = await answers().catch(() => null);
      if (now && now.newest !== before) {
        tell("recorded");
        window.location.reload();
        return;
      }
    }
  }

  function busy(yes) {
    for (const button of form.querySelectorAll("button")) button.setAttribute("aria-disabled", yes ? "true" : "false");
    form.dataset.busy = yes ? "true" : "";
  }

  async function send(choice) {
    busy(true);
    tell("sending");
    try {
      const before = await answers();
      const response = await fetch(form.dataset.answer, {
        method: "PATCH",
        credentials: "same-origin",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify(answer(choice)),
      });
      if (response.ok) {
        tell("sent");
        await untilRecorded(before ? before.newest : "");
        return;
      }
      const detail = await wordsOf(response);
      const known = ["400", "401", "403", "404", "409"].includes(String(response.status));
      tell(known ? String(response.status) : "lost", detail, true);
    } catch (error) {
      tell("lost", error.message, true);
    }
    busy(false);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const choice = event.submitter ? event.submitter.value : "";
    if (form.dataset.busy || !choice) return;
    const gap = missing(choice);
    if (gap) {
      tell(gap[0], "", true);
      gap[1].focus();
      return;
    }
    send(choice);
  });
})();
