"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const config = JSON.parse(document.getElementById("config").textContent);

  // Tabs, with the usual keyboard navigation.
  for (const bar of document.querySelectorAll("[role=tablist]")) {
    const tabs = [...bar.querySelectorAll("[role=tab]")];
    const show = (chosen) => {
      for (const tab of tabs) {
        const on = tab === chosen;
        tab.setAttribute("aria-selected", on);
        tab.tabIndex = on ? 0 : -1;
        document.getElementById(tab.getAttribute("aria-controls")).classList.toggle("hidden", !on);
      }
    };
    for (const [index, tab] of tabs.entries()) {
      tab.addEventListener("click", () => show(tab));
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = tabs[(to + tabs.length) % tabs.length];
        show(next);
        next.focus();
      });
    }
    show(tabs[0]);
  }

  // Tables that are wider than the window become lists, a block for each row; matrices, which have a caption, do not.
  const needed = new WeakMap();
  const fit = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const table = target.firstElementChild;
      if (!table.classList.contains("stacked")) needed.set(target, table.offsetWidth);
      table.classList.toggle("stacked", target.clientWidth > 0 && needed.get(target) > target.clientWidth);
    }
  });
  for (const table of document.querySelectorAll(".scroll > table:not(:has(caption))")) {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    for (const row of table.tBodies[0].rows)
      for (const [index, cell] of [...row.cells].entries()) if (index) cell.dataset.head = heads[index];
    fit.observe(table.parentElement);
  }

  // Charts: visible ones first, the others when idle, so that printing shows them all.
  const views = new WeakMap();
  const waiting = new Set(document.querySelectorAll(".chart"));
  const draw = async (chart) => {
    if (!waiting.delete(chart)) return;
    const spec = JSON.parse(chart.nextElementSibling.textContent);
    try {
      // `ast`: interpret expressions, since the content security policy forbids eval.
      const made = await window.momentalignEmbed(chart, spec, {
        config, mode: "vega-lite", renderer: "svg", actions: false, ast: true,
        tooltip: { theme: "custom" },
      });
      views.set(chart, made.view);
    } catch (error) {
      chart.textContent = "This chart could not be drawn.";
      console.error(error);
    }
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "300px" });
  for (const chart of waiting) seen.observe(chart);
  const later = window.requestIdleCallback ?? ((work) => setTimeout(work, 30));
  const next = async () => {
    const [chart] = waiting;
    if (chart === undefined) { root.dataset.charts = "drawn"; return; }
    await draw(chart);
    later(next);
  };
  window.addEventListener("load", () => later(next));

  // Legends: a pressed name stays opaque in its group, the others fade.
  for (const legend of document.querySelectorAll(".legend")) {
    const charts = [...legend.closest(".group").querySelectorAll(".chart")];
    legend.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const on = button.getAttribute("aria-pressed") !== "true";
      for (const other of legend.querySelectorAll("button")) other.setAttribute("aria-pressed", on && other === button);
      for (const chart of charts) views.get(chart)?.signal("focus", on ? button.dataset.name : "").runAsync();
    });
  }
})();
