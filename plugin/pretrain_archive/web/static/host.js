/* Makes a page a guest of Airflow: theme, brand colours, language and time zone follow the host page at once.
   Runs before the first paint, so nothing flashes. Storage or the parent may be closed to us: every access is
   guarded, and what cannot be read falls back to the browser's own settings. */
"use strict";
(function () {
  const root = document.documentElement;
  /* The marks of the verdicts stay ours: the host's solid colours are too dark on its dark background (below 3:1). */
  const COLOURS = {
    "--bg": "bg", "--bg-subtle": "bg-subtle", "--bg-muted": "bg-muted", "--fg": "fg", "--fg-muted": "fg-muted",
    "--border": "border", "--brand": "brand-solid", "--brand-contrast": "brand-contrast", "--brand-fg": "brand-fg",
    "--verified-text": "success-fg", "--changed-text": "warning-fg", "--refused-text": "failed-fg",
    "--waiting-text": "awaiting_input-fg",
  };

  function attempt(read) {
    try { return read(); } catch (error) { return undefined; }
  }

  const host = attempt(() =>
    window.parent !== window && window.parent.document.documentElement ? window.parent.document.documentElement : null,
  );
  const stored = (key) => attempt(() => window.localStorage.getItem(key)) || null;

  function theme() {
    if (host && host.classList.contains("dark")) return "dark";
    if (host && host.classList.contains("light")) return "light";
    const chosen = stored("theme");
    if (chosen === "dark" || chosen === "light") return chosen;
    return attempt(() => window.matchMedia("(prefers-color-scheme: dark)").matches) ? "dark" : "light";
  }

  function copyColours() {
    const style = host ? attempt(() => window.parent.getComputedStyle(host)) : null;
    for (const [ours, theirs] of Object.entries(COLOURS)) {
      const value = style ? style.getPropertyValue(`--chakra-colors-${theirs}`).trim() : "";
      if (value) root.style.setProperty(ours, value);
      else root.style.removeProperty(ours);
    }
  }

  function language() {
    const code = stored("i18nextLng") || (host && host.lang) || navigator.language || "en";
    const full = attempt(() => new Intl.Locale(code).maximize());
    return (full ? full.language : code.slice(0, 2).toLowerCase()) === "zh" ? "zh-CN" : "en";
  }

  function zone() {
    const chosen = stored("timezone");
    const name = chosen ? attempt(() => JSON.parse(chosen)) || chosen : undefined;
    return attempt(() => { new Intl.DateTimeFormat("en", { timeZone: name }); return name; });
  }

  /* As Airflow writes times: 2026-11-29 10:00:00, then the zone; the same in every language. */
  function showTimes() {
    const format = new Intl.DateTimeFormat("en-GB", {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
      hourCycle: "h23", timeZone: zone(), timeZoneName: "short",
    });
    for (const element of document.querySelectorAll("time[datetime]")) {
      // Microseconds are kept in the attribute; Date reads milliseconds.
      const at = new Date(element.dateTime.replace(/(\.\d{3})\d+/, "$1"));
      if (Number.isNaN(at.getTime())) continue;
      const part = Object.fromEntries(format.formatToParts(at).map((one) => [one.type, one.value]));
      element.textContent =
        `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second} ${part.timeZoneName}`;
    }
  }

  function follow() {
    const wanted = theme();
    if (root.dataset.theme !== wanted) root.dataset.theme = wanted;
    copyColours();
    const speaks = language();
    if (root.lang !== speaks) root.lang = speaks;
    const title = speaks === "zh-CN" ? root.dataset.titleZh : root.dataset.titleEn;
    if (title && document.title !== title) document.title = title;
    if (document.readyState !== "loading") showTimes();
  }

  /* A link to Airflow's own pages: inside the frame it must move the host, never open Airflow within Airflow.
     The frame may not navigate its parent, but it may tell the host's router to show another address. */
  function toAirflow(event) {
    const link = event.target.closest ? event.target.closest("a[data-airflow]") : null;
    if (!link || !host || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    attempt(() => {
      window.parent.history.pushState(null, "", link.href);
      window.parent.dispatchEvent(new window.parent.PopStateEvent("popstate", { state: null }));
    });
  }

  if (host) {
    root.dataset.framed = "true";
    attempt(() =>
      new MutationObserver(follow).observe(host, { attributes: true, attributeFilter: ["class", "lang", "style"] }),
    );
  }
  window.addEventListener("storage", follow);
  attempt(() => window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow));
  document.addEventListener("DOMContentLoaded", follow);
  document.addEventListener("click", toAirflow);
  follow();
})();
