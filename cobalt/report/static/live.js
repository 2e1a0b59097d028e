// Reads itself again while it may change, and says when nobody writes it any more. Without this script the time of
// writing stands on the page all the same.
"use strict";
const {written, every, state} = document.body.dataset;
const box = document.getElementById("refresh");
box.checked = location.hash !== "#still";
box.addEventListener("change", () => { history.replaceState(null, "", box.checked ? "#" : "#still"); });
const look = () => {
  const silent = Date.now() / 1000 - Number(written);
  if (state === "under way" && silent > 4 * Number(every) + 20) {
    document.getElementById("silent").textContent =
      `for ${silent < 120 ? `${Math.round(silent)} s` : silent < 7200 ? `${Math.round(silent / 60)} min` : `${Math.round(silent / 3600)} h`}`;
    document.getElementById("dead").hidden = false;
    document.title = document.title.replace("under way", "no sign of life");
  }
};
look();
setInterval(look, 1000);
setInterval(() => { if (box.checked) location.reload(); }, 1000 * Math.max(2, Number(every) / 2));
