for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0], place = head.cellIndex;
  const down = head.getAttribute("aria-sort") !== "descending" && !head.hasAttribute("data-text")
    || head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => row.cells[place].dataset.sort, sign = down ? -1 : 1;
  const compare = head.hasAttribute("data-text") ? (a, b) => key(a).localeCompare(key(b))
    : (a, b) => key(a) - key(b);
  body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
});
