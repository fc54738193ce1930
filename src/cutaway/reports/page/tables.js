// Tables can be sorted by any column of which the order is known: figures by their values, names by the alphabet.
const ENOUGH = 3;

function sortable(table) {
  const body = table.tBodies[0];
  if (!table.tHead || !body || body.rows.length < ENOUGH) return;
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    const cells = [...body.rows].map((row) => row.cells[at]);
    const figures = cells.every((cell) => cell && "value" in cell.dataset);
    if (head.classList.contains("bar") || (head.classList.contains("n") && !figures)) return;
    const button = h("button", { type: "button", class: "sort" }, ...head.childNodes);
    button.addEventListener("click", () => sortBy(table, at, figures));
    head.replaceChildren(button);
  });
}

// Figures from the largest, names from A; once more turns it over. Equals keep their order.
function sortBy(table, at, figures) {
  const heads = [...table.tHead.rows[0].cells];
  const before = heads[at].getAttribute("aria-sort");
  const first = figures ? "descending" : "ascending";
  const other = figures ? "ascending" : "descending";
  const now = before === first ? other : first;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[at].setAttribute("aria-sort", now);
  const sign = now === "ascending" ? 1 : -1;
  const compare = figures
    ? (a, b) => a.cells[at].dataset.value - b.cells[at].dataset.value
    : (a, b) => a.cells[at].textContent.localeCompare(b.cells[at].textContent);
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
}
