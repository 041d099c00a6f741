/* SPDX-License-Identifier: Apache-2.0 */
// On a narrow screen one schedule is shown at a time, chosen by a tab. What belongs to schedule i has data-of="i".

function startTabs(schedules, redraw) {
  const tabs = schedules.map((s, i) => make("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-controls": `panel-${i}` }, ...nameOf(s, i)));
  const choose = (chosen) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", i === chosen);
      tab.tabIndex = i === chosen ? 0 : -1;
    });
    for (const box of document.querySelectorAll("[data-of]")) box.classList.toggle("away", Number(box.dataset.of) !== chosen);
    redraw();
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(i));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      const next = (to + tabs.length) % tabs.length;
      choose(next);
      tabs[next].focus();
      event.preventDefault();
      event.stopPropagation(); // these keys step through time elsewhere
    });
  });
  document.getElementById("tabs").append(...tabs);
  document.getElementById("tabs").hidden = schedules.length < 2;
  choose(0);
}
